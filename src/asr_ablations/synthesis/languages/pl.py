"""Polish: words with the forms that the grammar needs, the most frequent first, and the grammar."""

import re

from asr_ablations.synthesis.grammar import Language, parse_grammar, words

ACCENTS = {"clean": ("pl",), "other": ("pl",)}

# Men: nominative/genitive (= accusative)/instrumental/nominative plural.
MEN = """człowiek/człowieka/człowiekiem/ludzie pan/pana/panem/panowie chłopiec/chłopca/chłopcem/chłopcy
    brat/brata/bratem/bracia ojciec/ojca/ojcem/ojcowie syn/syna/synem/synowie lekarz/lekarza/lekarzem/lekarze
    nauczyciel/nauczyciela/nauczycielem/nauczyciele przyjaciel/przyjaciela/przyjacielem/przyjaciele
    sąsiad/sąsiada/sąsiadem/sąsiedzi student/studenta/studentem/studenci król/króla/królem/królowie
    mąż/męża/mężem/mężowie uczeń/ucznia/uczniem/uczniowie żołnierz/żołnierza/żołnierzem/żołnierze
    dziadek/dziadka/dziadkiem/dziadkowie gość/gościa/gościem/goście rolnik/rolnika/rolnikiem/rolnicy
    kucharz/kucharza/kucharzem/kucharze aktor/aktora/aktorem/aktorzy malarz/malarza/malarzem/malarze
    pisarz/pisarza/pisarzem/pisarze policjant/policjanta/policjantem/policjanci muzyk/muzyka/muzykiem/muzycy
    rybak/rybaka/rybakiem/rybacy kapitan/kapitana/kapitanem/kapitanowie strażak/strażaka/strażakiem/strażacy
    dyrektor/dyrektora/dyrektorem/dyrektorzy inżynier/inżyniera/inżynierem/inżynierowie
    wujek/wujka/wujkiem/wujkowie rycerz/rycerza/rycerzem/rycerze marynarz/marynarza/marynarzem/marynarze
    ksiądz/księdza/księdzem/księża ogrodnik/ogrodnika/ogrodnikiem/ogrodnicy piekarz/piekarza/piekarzem/piekarze
    kelner/kelnera/kelnerem/kelnerzy listonosz/listonosza/listonoszem/listonosze górnik/górnika/górnikiem/górnicy
    złodziej/złodzieja/złodziejem/złodzieje bohater/bohatera/bohaterem/bohaterowie
    profesor/profesora/profesorem/profesorowie prezydent/prezydenta/prezydentem/prezydenci
    minister/ministra/ministrem/ministrowie kupiec/kupca/kupcem/kupcy krawiec/krawca/krawcem/krawcy
    stolarz/stolarza/stolarzem/stolarze robotnik/robotnika/robotnikiem/robotnicy szewc/szewca/szewcem/szewcy
    pasażer/pasażera/pasażerem/pasażerowie mieszkaniec/mieszkańca/mieszkańcem/mieszkańcy
    śpiewak/śpiewaka/śpiewakiem/śpiewacy przewodnik/przewodnika/przewodnikiem/przewodnicy"""
# Women: hard stems in -a, all forms by rule.
WOMEN = """kobieta dziewczyna matka siostra córka żona nauczycielka sąsiadka koleżanka lekarka studentka aktorka
    pielęgniarka wnuczka ciotka pisarka kucharka malarka śpiewaczka tancerka sekretarka kelnerka dziennikarka
    fryzjerka artystka bibliotekarka"""
MALE_NAMES = """jan/jana/janem piotr/piotra/piotrem paweł/pawła/pawłem adam/adama/adamem marek/marka/markiem
    tomasz/tomasza/tomaszem andrzej/andrzeja/andrzejem michał/michała/michałem jakub/jakuba/jakubem
    krzysztof/krzysztofa/krzysztofem wojciech/wojciecha/wojciechem józef/józefa/józefem karol/karola/karolem
    stanisław/stanisława/stanisławem łukasz/łukasza/łukaszem janusz/janusza/januszem"""
FEMALE_NAMES = """anna ewa katarzyna maria/marię/marii/marią barbara zofia/zofię/zofii/zofią agnieszka joanna helena
    julia/julię/julii/julią monika teresa krystyna hanna marta dorota irena magda"""
# Animals: nominative/accusative/nominative plural.
ANIMALS_M = """pies/psa/psy kot/kota/koty koń/konia/konie ptak/ptaka/ptaki lis/lisa/lisy wilk/wilka/wilki lew/lwa/lwy
    niedźwiedź/niedźwiedzia/niedźwiedzie królik/królika/króliki zając/zająca/zające słoń/słonia/słonie
    osioł/osła/osły bocian/bociana/bociany tygrys/tygrysa/tygrysy jeż/jeża/jeże orzeł/orła/orły kogut/koguta/koguty"""
ANIMALS_F = "krowa kura koza kaczka żaba małpa sowa wiewiórka pszczoła mucha papuga mrówka"
# Things: masculine nominative (= accusative)/plural; feminine by rule; neuter nominative (= accusative)/plural.
OBJECTS_M = """list/listy stół/stoły samochód/samochody klucz/klucze nóż/noże zegar/zegary obraz/obrazy rower/rowery
    telefon/telefony płaszcz/płaszcze but/buty kapelusz/kapelusze talerz/talerze kubek/kubki koszyk/koszyki
    bilet/bilety prezent/prezenty ołówek/ołówki zeszyt/zeszyty garnek/garnki plecak/plecaki parasol/parasole
    komputer/komputery fotel/fotele dywan/dywany worek/worki młotek/młotki szalik/szaliki sweter/swetry
    pierścień/pierścienie wazon/wazony kwiat/kwiaty kamień/kamienie aparat/aparaty papier/papiery guzik/guziki
    dzwon/dzwony mebel/meble gwóźdź/gwoździe łańcuch/łańcuchy bęben/bębny statek/statki"""
OBJECTS_F = """książka lampa gazeta torba czapka szafa mapa butelka szklanka koszula łyżka walizka piłka zabawka paczka
    kartka sukienka miska kurtka skrzynka gitara poduszka moneta maszyna flaga drabina lina igła szczotka doniczka
    filiżanka rękawiczka półka ławka siekiera"""
OBJECTS_N = """okno/okna krzesło/krzesła łóżko/łóżka pudełko/pudełka lustro/lustra biurko/biurka zdjęcie/zdjęcia
    pióro/pióra ubranie/ubrania koło/koła lekarstwo/lekarstwa drzewo/drzewa wiadro/wiadra żelazko/żelazka
    skrzydło/skrzydła narzędzie/narzędzia naczynie/naczynia"""
FOODS_M = words("chleb ser tort obiad makaron ryż deser rosół barszcz placek sos bigos")
FOODS_F = """zupa kanapka ryba sałatka bułka kiełbasa kapusta gruszka marchewka śliwka truskawka malina cebula
    szynka czekolada"""
FOODS_N = words("mięso jabłko ciasto śniadanie jajko masło warzywo")
DRINKS = words("wodę herbatę kawę mleko sok wino piwo kakao kompot lemoniadę")
THINGS_M = words("problem plan film wiersz język tekst przepis wynik artykuł sen cel wyrok")
THINGS_F = """praca/pracę prawda/prawdę sprawa/sprawę bajka/bajkę piosenka/piosenkę historia/historię lekcja/lekcję
    odpowiedź/odpowiedź muzyka/muzykę zagadka/zagadkę umowa/umowę powieść/powieść nauka/naukę wiadomość/wiadomość
    tajemnica/tajemnicę opowieść/opowieść zabawa/zabawę"""
THINGS_N = words("słowo pytanie zadanie zdanie opowiadanie prawo zdarzenie marzenie ćwiczenie rozwiązanie")
# Places: nominative/genitive/locative.
PLACES_M = """dom/domu/domu las/lasu/lesie sklep/sklepu/sklepie ogród/ogrodu/ogrodzie park/parku/parku
    kościół/kościoła/kościele pokój/pokoju/pokoju szpital/szpitala/szpitalu hotel/hotelu/hotelu
    teatr/teatru/teatrze zamek/zamku/zamku kraj/kraju/kraju pałac/pałacu/pałacu bank/banku/banku
    garaż/garażu/garażu klasztor/klasztoru/klasztorze młyn/młyna/młynie sąd/sądu/sądzie"""
PLACES_F = """szkoła/szkoły/szkole kuchnia/kuchni/kuchni wieś/wsi/wsi biblioteka/biblioteki/bibliotece
    rzeka/rzeki/rzece restauracja/restauracji/restauracji łazienka/łazienki/łazience fabryka/fabryki/fabryce
    apteka/apteki/aptece kawiarnia/kawiarni/kawiarni piekarnia/piekarni/piekarni piwnica/piwnicy/piwnicy
    dolina/doliny/dolinie stodoła/stodoły/stodole jaskinia/jaskini/jaskini"""
PLACES_N = """miasto/miasta/mieście kino/kina/kinie biuro/biura/biurze mieszkanie/mieszkania/mieszkaniu
    muzeum/muzeum/muzeum jezioro/jeziora/jeziorze miasteczko/miasteczka/miasteczku przedszkole/przedszkola/przedszkolu
    morze/morza/morzu więzienie/więzienia/więzieniu schronisko/schroniska/schronisku"""
CITIES = """warszawa/warszawy/warszawie kraków/krakowa/krakowie gdańsk/gdańska/gdańsku wrocław/wrocławia/wrocławiu
    poznań/poznania/poznaniu łódź/łodzi/łodzi lublin/lublina/lublinie toruń/torunia/toruniu paryż/paryża/paryżu
    londyn/londynu/londynie berlin/berlina/berlinie rzym/rzymu/rzymie praga/pragi/pradze wiedeń/wiednia/wiedniu
    moskwa/moskwy/moskwie polska/polski/polsce francja/francji/francji anglia/anglii/anglii"""

ADJECTIVES = {
    "NICE": """dobry stary młody mały nowy miły mądry wesoły smutny biedny bogaty zły zmęczony silny wysoki głupi niski
        słaby piękny znany chory zdrowy spokojny leniwy dziwny uprzejmy odważny głodny samotny uczciwy ciekawy""",
    "LOOK": """duży mały nowy stary czerwony biały czarny zielony piękny niebieski ciężki drogi czysty żółty brudny
        szary
        lekki pusty złoty drewniany tani szklany srebrny brązowy dziwny wąski szeroki mokry suchy miękki twardy
        okrągły""",
    "MEANT": """ważny dobry trudny długi krótki łatwy nowy ciekawy prawdziwy nudny stary smutny wesoły piękny dziwny
        mądry
        poważny tajny ostatni polski""",
    "TASTE": "świeży ciepły zimny słodki smaczny gorący kwaśny słony tłusty zdrowy gorzki surowy",
}

# Verbs: infinitive[/I/he/they[/he did/she did/they did]]; forms that are not listed follow the rules.
VERBS = {
    "REST": """spać/śpię/śpi/śpią pracować czekać śpiewać siedzieć/siedzę/siedzi/siedzą stać/stoję/stoi/stoją
        odpoczywać tańczyć/tańczę/tańczy/tańczą płakać/płaczę/płacze/płaczą krzyczeć/krzyczę/krzyczy/krzyczą mieszkać
        biegać pływać leżeć/leżę/leży/leżą rozmawiać milczeć/milczę/milczy/milczą gotować spacerować żartować
        marzyć/marzę/marzy/marzą skakać/skaczę/skacze/skaczą podróżować kłamać/kłamię/kłamie/kłamią chorować
        drzemać/drzemię/drzemie/drzemią szeptać/szepczę/szepcze/szepczą protestować kichać""",
    "MOVE": """iść/idę/idzie/idą/szedł/szła/szli jechać/jadę/jedzie/jadą wracać
        biec/biegnę/biegnie/biegną/biegł/biegła/biegli
        chodzić/chodzę/chodzi/chodzą jeździć/jeżdżę/jeździ/jeżdżą lecieć/lecę/leci/lecą uciekać wędrować
        płynąć/płynę/płynie/płyną maszerować pędzić/pędzę/pędzi/pędzą""",
    "EAT": """jeść/jem/je/jedzą/jadł/jadła/jedli lubić/lubię/lubi/lubią gotować kupować zamawiać
        piec/piekę/piecze/pieką/piekł/piekła/piekli kroić/kroję/kroi/kroją podawać/podaję/podaje/podają
        smażyć/smażę/smaży/smażą""",
    "HANDLE": """mieć/mam/ma/mają widzieć/widzę/widzi/widzą kupować brać/biorę/bierze/biorą robić/robię/robi/robią
        nosić/noszę/nosi/noszą trzymać malować otwierać sprzedawać/sprzedaję/sprzedaje/sprzedają zamykać
        myć/myję/myje/myją naprawiać zbierać chować/chowam/chowa/chowają gubić/gubię/gubi/gubią wybierać rysować
        czyścić/czyszczę/czyści/czyszczą
        wysyłać pożyczać rzucać podnosić/podnoszę/podnosi/podnoszą ciągnąć/ciągnę/ciągnie/ciągną oglądać
        niszczyć/niszczę/niszczy/niszczą mierzyć/mierzę/mierzy/mierzą produkować pakować
        dostawać/dostaję/dostaje/dostają
        kłaść/kładę/kładzie/kładą/kładł/kładła/kładli fotografować""",
    "MEET": """widzieć/widzę/widzi/widzą znać lubić/lubię/lubi/lubią kochać spotykać pytać odwiedzać
        słyszeć/słyszę/słyszy/słyszą pamiętać witać rozumieć/rozumiem/rozumie/rozumieją uczyć/uczę/uczy/uczą wołać
        zapraszać ratować całować chwalić/chwalę/chwali/chwalą żegnać szanować budzić/budzę/budzi/budzą
        karmić/karmię/karmi/karmią leczyć/leczę/leczy/leczą przepraszać straszyć/straszę/straszy/straszą
        gonić/gonię/goni/gonią obserwować śledzić/śledzę/śledzi/śledzą""",
    "MIND": """czytać pisać/piszę/pisze/piszą znać rozumieć/rozumiem/rozumie/rozumieją pamiętać zaczynać powtarzać
        kończyć/kończę/kończy/kończą wyjaśniać sprawdzać poprawiać tłumaczyć/tłumaczę/tłumaczy/tłumaczą planować
        opisywać/opisuję/opisuje/opisują zmieniać studiować drukować""",
    "SAY": """mówić/mówię/mówi/mówią myśleć/myślę/myśli/myślą wiedzieć/wiem/wie/wiedzą pisać/piszę/pisze/piszą
        wierzyć/wierzę/wierzy/wierzą czuć/czuję/czuje/czują pamiętać twierdzić/twierdzę/twierdzi/twierdzą
        sądzić/sądzę/sądzi/sądzą obiecywać/obiecuję/obiecuje/obiecują""",
    "WANT": """chcieć/chcę/chce/chcą musieć/muszę/musi/muszą móc/mogę/może/mogą/mógł/mogła/mogli
        lubić/lubię/lubi/lubią umieć/umiem/umie/umieją woleć/wolę/woli/wolą próbować zaczynać""",
}
WORDS = {
    "MANNER": """szybko powoli dobrze cicho głośno źle chętnie spokojnie nagle razem wesoło smutno długo pięknie ciężko
        uważnie odważnie cierpliwie grzecznie""",
    "WHEN": """wczoraj dzisiaj teraz potem rano wieczorem zawsze często czasem jutro codziennie wkrótce niedawno kiedyś
        latem zimą wiosną jesienią nocą rzadko ostatnio nareszcie""",
    "DAY": "poniedziałek środę czwartek piątek sobotę niedzielę",
    "MONTH": """maju styczniu czerwcu grudniu marcu lipcu wrześniu kwietniu sierpniu październiku lutym listopadzie""",
    "CLOCK": """pierwszej drugiej trzeciej piątej szóstej ósmej dziesiątej siódmej czwartej dziewiątej dwunastej
        jedenastej""",
    "NUMBER": """pięć dziesięć sześć siedem osiem dziewięć dwanaście piętnaście jedenaście trzynaście czternaście
        szesnaście
        siedemnaście osiemnaście dziewiętnaście sto""",
    "TEN": """dwadzieścia trzydzieści czterdzieści pięćdziesiąt sześćdziesiąt siedemdziesiąt osiemdziesiąt
        dziewięćdziesiąt""",
    "UNIT": "pięć dwa trzy sześć cztery siedem osiem dziewięć",
    "VERY": "bardzo tak zbyt naprawdę całkiem dość",
}


def feminine(entry: str) -> tuple[str, str, str, str]:
    """Return nominative, accusative, genitive (= nominative plural), instrumental of a noun in -a after a hard stem."""
    if "/" in entry:
        nominative, accusative, genitive, instrumental = entry.split("/")
        return nominative, accusative, genitive, instrumental
    stem = entry[:-1]
    return entry, stem + "ę", stem + ("i" if stem[-1] in "kg" else "y"), stem + "ą"


def adjective_forms(adjective: str) -> dict[str, str]:
    """Return the forms of an adjective: M, F, N nominative; MA masculine animate accusative, FA feminine accusative;
    ML, FL locative; P plural of things, animals and women.
    """
    hard = re.search("[kg]i$", adjective)
    stem = adjective[:-1] if hard or adjective.endswith("y") else adjective
    soft = stem + "i" if hard else stem
    return {
        "M": adjective,
        "F": stem + "a",
        "N": soft + "e",
        "MA": soft + "ego",
        "FA": stem + "ą",
        "ML": adjective + "m",
        "FL": soft + "ej",
        "P": soft + "e",
    }


PRESENT, PAST = ("I", "S", "P"), ("DID_M", "DID_F", "DID_P")
FORMS = ("INF", *PRESENT, *PAST)


def present(infinitive: str) -> list[str]:
    """Return the present forms of I, he and they of a regular verb in -ować or -ać."""
    if infinitive.endswith("ować"):
        return [infinitive[:-4] + ending for ending in ("uję", "uje", "ują")]
    return [infinitive[:-1] + ending for ending in ("m", "", "ją")]


def past(infinitive: str) -> list[str]:
    """Return the past forms of he, she and they of a verb whose infinitive ends in a vowel and ć."""
    stem = infinitive[:-1]
    if stem.endswith("ą"):
        return [stem + "ł", stem[:-1] + "ęła", stem[:-1] + "ęli"]
    if stem.endswith("e"):
        return [stem[:-1] + "ał", stem[:-1] + "ała", stem + "li"]
    return [stem + ending for ending in ("ł", "ła", "li")]


def verb_forms(entry: str) -> dict[str, str]:
    """Return the forms of a verb by the names in FORMS."""
    infinitive, *irregular = entry.split("/")
    forms = [infinitive, *(irregular[:3] or present(infinitive)), *(irregular[3:] or past(infinitive))]
    return dict(zip(FORMS, forms, strict=True))


def _columns(name: str, rows: list[tuple[str, ...]], columns: str) -> dict[str, list[str]]:
    titles = columns.split()
    return {f"{name}{title}": [row[i] for row in rows] for i, title in enumerate(titles) if title != "-"}


def _split(text: str) -> list[tuple[str, ...]]:
    return [tuple(entry.split("/")) for entry in text.split()]


def categories() -> dict[str, list[str]]:
    """Return the words of each category, the most frequent first."""
    feminines = {
        "WOMAN": WOMEN,
        "HER_NAME": FEMALE_NAMES,
        "BEAST_F": ANIMALS_F,
        "OBJECT_F": OBJECTS_F,
        "FOOD_F": FOODS_F,
    }
    result = {name: text.split() for name, text in WORDS.items()}
    for name, text in feminines.items():
        result |= _columns(name, [feminine(entry) for entry in text.split()], "_NOM _ACC _PL _INS")
    for name in ("HER_NAME_PL", "BEAST_F_INS", "OBJECT_F_INS", "FOOD_F_INS"):
        del result[name]
    result |= _columns("MAN", _split(MEN), "_NOM _ACC _INS _PL") | _columns(
        "HIS_NAME", _split(MALE_NAMES), "_NOM _ACC _INS"
    )
    result |= _columns("BEAST_M", _split(ANIMALS_M), "_NOM _ACC _PL")
    result |= _columns("OBJECT_M", _split(OBJECTS_M), "_NOM _PL") | _columns("OBJECT_N", _split(OBJECTS_N), "_NOM _PL")
    result |= {"FOOD_M": FOODS_M, "FOOD_N": FOODS_N, "DRINK": DRINKS, "THING_M": THINGS_M, "THING_N": THINGS_N}
    result |= _columns("THING_F", _split(THINGS_F), "_NOM _ACC")
    for gender, text in {"M": PLACES_M, "F": PLACES_F, "N": PLACES_N}.items():
        result |= _columns(f"PLACE_{gender}", _split(text), "_NOM _GEN _LOC")
    result |= _columns("CITY", _split(CITIES), "- _GEN _LOC")
    for name, text in ADJECTIVES.items():
        for form in adjective_forms("dobry"):
            result[f"{name}_{form}"] = [adjective_forms(adjective)[form] for adjective in text.split()]
    for name, text in VERBS.items():
        for form in FORMS:
            result[f"{name}_{form}"] = [verb_forms(entry)[form] for entry in text.split()]
    used = {part for productions in grammar().values() for _, production in productions for part in production}
    return {name: list(dict.fromkeys(members)) for name, members in result.items() if name in used}


GRAMMAR = """
SENTENCE
  12 STATEMENT | 2 WHEN STATEMENT | 2 TIME STATEMENT | 2 STATEMENT TIME | 2.5 STATEMENT JOIN STATEMENT | 2 QUESTION
STATEMENT
  5 HE DO_DID_M | 5 SHE DO_DID_F | 2 THEY DO_DID_P | 2 ONE DO_S | 1.5 THEY DO_P | 1.5 ja DO_I | 0.7 ONE nie REST_S
  0.6 HE nie REST_DID_M | 0.6 SHE nie REST_DID_F | 1 HE będzie DO_INF | 1 SHE będzie DO_INF | 0.6 THEY będą DO_INF
  1 HE IS_M STATE_M | 1 SHE IS_F STATE_F | 2 IT_IS | 0.6 ANIMAL_M MOVE_DID_M PATH | 0.6 ANIMAL_F MOVE_DID_F PATH
  0.6 ANIMAL_M REST_S IN_PLACE | 0.4 ANIMAL_F REST_S IN_PLACE | 0.5 ONE ma AGE lat | 0.4 ja mam AGE lat
  0.4 w PLACE_M_LOC jest OBJECT_M_NOM | 0.3 w PLACE_N_LOC jest OBJECT_F_NOM | 0.4 HE WHEN DO_DID_M
  0.4 SHE WHEN DO_DID_F
  0.4 BEAST_M_PL REST_P IN_PLACE | 0.3 BEAST_F_PL REST_P IN_PLACE | 0.3 WOMAN_PL DO_P
IT_IS
  1.5 THE_M OBJECT_M_NOM IS_M LOOKING_M | 1.5 THE_F OBJECT_F_NOM IS_F LOOKING_F | 1 THE_N OBJECT_N_NOM IS_N LOOKING_N
  0.8 THE_M PLACE_M_NOM IS_M LOOKING_M | 0.8 THE_F PLACE_F_NOM IS_F LOOKING_F | 0.6 THE_N PLACE_N_NOM IS_N LOOKING_N
  0.6 THE_M THING_M IS_M MEANING_M | 0.7 THE_F THING_F_NOM IS_F MEANING_F | 0.5 THE_N THING_N IS_N MEANING_N
  0.5 THE_M FOOD_M IS_M TASTE_M | 0.6 THE_F FOOD_F_NOM IS_F TASTE_F | 0.4 THE_N FOOD_N IS_N TASTE_N
  0.4 OBJECT_M_PL są LOOK_P | 0.4 OBJECT_F_PL są LOOK_P | 0.3 OBJECT_N_PL były LOOK_P
QUESTION
  1.5 czy HE DO_DID_M | 1.5 czy SHE DO_DID_F | 1 czy ONE DO_S | 0.7 dlaczego HE DO_DID_M | 0.7 dlaczego SHE DO_DID_F
  1 kto DO_DID_M | 0.6 kto DO_S | 0.5 gdzie jest THE_M OBJECT_M_NOM | 0.5 gdzie jest THE_F OBJECT_F_NOM
  0.4 gdzie jest THE_N OBJECT_N_NOM | 0.5 kiedy HE MOVE_DID_M PATH | 0.5 kiedy SHE MOVE_DID_F PATH
  0.4 co HE HANDLE_DID_M
  0.4 co SHE HANDLE_DID_F | 0.4 czy THEY DO_P
ONE
  1 HE | 1 SHE
HE
  4 on | 3 HIS_NAME_NOM | 3 THE_M MAN_NOM | 1 MAN_NOM | 2 NICE_M MAN_NOM | 0.6 MAN_NOM z CITY_GEN
SHE
  4 ona | 3 HER_NAME_NOM | 3 THE_F WOMAN_NOM | 1 WOMAN_NOM | 2 NICE_F WOMAN_NOM | 0.6 WOMAN_NOM z CITY_GEN
THEY
  3 oni | 2 MAN_PL | 1 HIS_NAME_NOM i HER_NAME_NOM | 0.5 moi MAN_PL | 0.4 ci MAN_PL
THE_M
  3 ten | 3 mój | 1.5 jego | 1.5 jej | 1 nasz | 1 twój | 0.7 ich | 0.6 każdy
THE_F
  3 ta | 3 moja | 1.5 jego | 1.5 jej | 1 nasza | 1 twoja | 0.7 ich | 0.6 każda
THE_N
  3 to | 3 moje | 1.5 jego | 1.5 jej | 1 nasze | 1 twoje | 0.7 ich | 0.4 każde
THE_FA
  3 tę | 3 moją | 1.5 jego | 1.5 jej | 1 naszą | 1 twoją | 2 swoją
THE_MA
  3 tego | 3 mojego | 1.5 jego | 1.5 jej | 1 naszego | 1 twojego | 2 swojego
IS_M
  2 jest | 2 był | 0.4 nie był
IS_F
  2 jest | 2 była | 0.4 nie była
IS_N
  2 jest | 2 było | 0.4 nie było
STATE_M
  3 NICE_M | 2 VERY NICE_M | 2 IN_PLACE
STATE_F
  3 NICE_F | 2 VERY NICE_F | 2 IN_PLACE
LOOKING_M
  3 LOOK_M | 1 VERY LOOK_M | 0.6 IN_PLACE
LOOKING_F
  3 LOOK_F | 1 VERY LOOK_F | 0.6 IN_PLACE
LOOKING_N
  3 LOOK_N | 1 VERY LOOK_N | 0.6 IN_PLACE
MEANING_M
  2 MEANT_M | 1 VERY MEANT_M
MEANING_F
  2 MEANT_F | 1 VERY MEANT_F
MEANING_N
  2 MEANT_N | 1 VERY MEANT_N
AGE
  3 NUMBER | 1 TEN | 1.5 TEN UNIT
ANIMAL_M
  3 THE_M BEAST_M_NOM | 2 BEAST_M_NOM | 1 LOOK_M BEAST_M_NOM
ANIMAL_F
  3 THE_F BEAST_F_NOM | 2 BEAST_F_NOM | 1 LOOK_F BEAST_F_NOM
JOIN
  4 i | 3 ale | 2 bo | 1.5 kiedy | 1 więc | 1 a | 0.7 gdy | 0.7 jeśli | 0.4 chociaż | 0.4 lub
TIME
  2 w DAY | 0.6 we wtorek | 1.5 w MONTH | 1.5 o CLOCK | 0.8 po południu | 0.7 w nocy | 0.5 o północy | 0.5 cały dzień
PERSON_ACC
  1 go | 1 ją | 1 mnie | 0.8 ich | 0.8 nas | 0.7 was | 0.7 cię | 1.5 HIS_NAME_ACC | 1.5 HER_NAME_ACC | 2 THE_MA MAN_ACC
  2 THE_FA WOMAN_ACC | 0.8 NICE_MA MAN_ACC | 0.8 NICE_FA WOMAN_ACC | 0.7 THE_MA BEAST_M_ACC | 0.7 THE_FA BEAST_F_ACC
OBJECT_ACC
  2 OBJECT_M_NOM | 2 OBJECT_F_ACC | 1 OBJECT_N_NOM | 1.5 THE_M OBJECT_M_NOM | 1.5 THE_FA OBJECT_F_ACC
  1 THE_N OBJECT_N_NOM | 1.2 LOOK_M OBJECT_M_NOM | 1.2 LOOK_FA OBJECT_F_ACC | 0.8 LOOK_N OBJECT_N_NOM | 0.7 OBJECT_M_PL
  0.7 OBJECT_F_PL | 0.5 OBJECT_N_PL | 0.6 dwa OBJECT_M_PL | 0.6 dwie OBJECT_F_PL | 0.4 trzy OBJECT_M_PL
  0.4 cztery OBJECT_F_PL
  0.4 LOOK_P OBJECT_M_PL | 0.4 wszystko | 0.5 swój OBJECT_M_NOM
THING_ACC
  1 THING_M | 1 THING_F_ACC | 1 THING_N | 1.5 THE_M THING_M | 1.5 THE_FA THING_F_ACC | 1.5 THE_N THING_N
  1 MEANT_M THING_M | 1 MEANT_FA THING_F_ACC | 1 MEANT_N THING_N | 0.4 wszystko | 0.4 coś
FOOD_ACC
  1 FOOD_M | 1.2 FOOD_F_ACC | 1 FOOD_N | 1 TASTE_M FOOD_M | 1 TASTE_FA FOOD_F_ACC | 0.8 TASTE_N FOOD_N | 0.6 FOOD_F_PL
  0.6 THE_N FOOD_N
PATH
  2 do PLACE_M_GEN | 2 do PLACE_F_GEN | 1.5 do PLACE_N_GEN | 1.5 do CITY_GEN | 0.6 z PLACE_M_GEN | 0.6 ze PLACE_F_GEN
  0.6 z PLACE_N_GEN | 0.5 z CITY_GEN | 1 COMPANY | 0.6 do domu | 0.4 przez PLACE_N_NOM
IN_PLACE
  2 w PLACE_M_LOC | 2 w PLACE_F_LOC | 1.5 w PLACE_N_LOC | 1.5 w CITY_LOC | 0.8 w LOOK_ML PLACE_M_LOC
  0.8 w LOOK_FL PLACE_F_LOC
  0.6 w LOOK_ML PLACE_N_LOC | 0.5 obok PLACE_M_GEN | 0.4 obok PLACE_F_GEN | 0.4 koło PLACE_N_GEN
  0.4 blisko PLACE_M_GEN
COMPANY
  1 z HIS_NAME_INS | 1 z HER_NAME_INS | 1 z MAN_INS | 1 z WOMAN_INS
"""
VERB_PHRASES = """
DO_{T}
  2 REST_{T} | 1.5 REST_{T} MANNER | 2 REST_{T} IN_PLACE | 0.7 REST_{T} COMPANY | 5 MOVE_{T} PATH | 0.5 MOVE_{T} MANNER
  3 EAT_{T} FOOD_ACC | 1 {drink} DRINK | 5 HANDLE_{T} OBJECT_ACC | 0.8 HANDLE_{T} OBJECT_ACC IN_PLACE
  5 MEET_{T} PERSON_ACC
  4 MIND_{T} THING_ACC | 2 SAY_{T} że STATEMENT
"""
DRINK_FORMS = dict(zip(FORMS, words("pić piję pije piją pił piła pili"), strict=True))


def grammar() -> dict[str, list[tuple[float, list[str]]]]:
    """Return the Polish grammar."""
    phrases = [VERB_PHRASES.format(T=form, drink=DRINK_FORMS[form]) for form in FORMS]
    phrases += [f"DO_{form}\n  2 WANT_{form} DO_INF\n" for form in PRESENT + PAST]
    return parse_grammar(GRAMMAR + "".join(phrases))


def lengthen_prepositions(sentence: list[str]) -> list[str]:
    """Replace "w" by "we" and "z" by "ze" before the groups of consonants that require it."""
    following = [*sentence[1:], ""]
    result = []
    for word, after in zip(sentence, following, strict=True):
        if word == "w" and re.match("[wf][^aąeęioóuy]", after):
            word = "we"
        elif word in ("z", "ze"):
            word = "ze" if re.match("([szśźż][^aąeęioóuyz]|sz[^aąeęioóuy]|ws|lw)", after) else "z"
        result.append(word)
    return result


def language() -> Language:
    """Return the Polish language."""
    return Language(grammar(), categories(), lengthen_prepositions, ACCENTS)
