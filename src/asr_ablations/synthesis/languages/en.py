"""English: words by part of speech, the most frequent first, their inflections by rule, and a grammar."""

import re

from asr_ablations.synthesis.grammar import Language, parse_grammar, words

ACCENTS = {
    "clean": ("en-us", "en", "en-gb-x-rp", "en-us-nyc"),
    "other": ("en-gb-scotland", "en-029", "en-gb-x-gbclan", "en-gb-x-gbcwmd"),
}

# Nouns: each class ordered by frequency of use; `singular:plural` for irregular plurals.
NOUNS = {
    "PERSON": """man:men woman:women friend boy girl child:children doctor teacher king father mother brother sister
        neighbour captain student farmer soldier wife:wives husband son daughter lady queen uncle aunt stranger guest
        judge nurse driver artist writer singer sailor lawyer priest baker hunter worker servant prince princess
        officer engineer painter poet musician gardener cook waiter visitor leader dancer player manager scientist
        actor builder shepherd miller tailor carpenter merchant traveller thief:thieves guard witness giant wizard
        cousin nephew niece grandmother grandfather widow infant orphan hero:heroes villain coward genius clown
        detective inspector postman:postmen policeman:policemen fisherman:fishermen gentleman:gentlemen butcher
        barber jeweller plumber electrician mechanic pilot professor pupil librarian secretary clerk banker editor
        reporter photographer translator surgeon dentist chemist butler maid landlord tenant customer client passenger
        beggar prisoner rebel knight emperor president minister mayor ambassador general colonel sergeant
        veteran volunteer apprentice expert beginner champion rival enemy partner colleague companion ancestor
        bishop monk nun pilgrim prophet philosopher historian inventor explorer pirate smuggler shopkeeper
        blacksmith woodcutter goldsmith watchmaker shoemaker weaver potter miner chauffeur porter messenger
        magician juggler acrobat drummer violinist pianist conductor composer sculptor architect designer
        athlete runner swimmer wrestler boxer goalkeeper referee coach spectator critic novelist journalist""",
    "ANIMAL": """dog cat horse bird cow sheep:sheep fish:fish fox bear wolf:wolves lion mouse:mice rabbit chicken duck
        pig goat donkey tiger elephant monkey snake frog eagle owl bee spider butterfly squirrel deer:deer goose:geese
        hen rooster lamb calf:calves puppy kitten camel crow swan turtle whale shark dolphin crab ant beetle
        hedgehog badger otter beaver pony mule ox:oxen bull hare rat bat parrot pigeon sparrow robin hawk
        raven falcon stork heron pelican penguin ostrich peacock turkey turtledove lizard crocodile toad snail worm
        moth wasp cricket grasshopper mosquito:mosquitoes ladybird dragonfly lobster octopus seal salmon:salmon
        trout:trout zebra giraffe leopard panther hyena gorilla kangaroo koala panda buffalo:buffaloes moose:moose
        antelope gazelle weasel ferret hamster""",
    "FOOD": """bread apple cheese soup egg cake potato:potatoes orange meat pie banana tomato:tomatoes onion carrot
        sandwich pear biscuit salad pancake berry cherry peach plum grape lemon nut sausage meal breakfast lunch dinner
        supper melon pumpkin cabbage cucumber pepper mushroom bean pea strawberry raspberry blackberry apricot
        pineapple coconut walnut almond pudding omelette roll loaf:loaves waffle steak stew sauce curry noodle
        dumpling pickle radish turnip beetroot leek lettuce olive date fig mango:mangoes dessert snack
        doughnut muffin pastry tart toffee cracker burger kebab""",
    "DRINK": """water milk tea coffee juice wine beer lemonade cocoa broth cider brandy whisky rum syrup""",
    "OBJECT": """book letter box key table chair door window bag lamp cup bottle knife:knives picture hat coat clock
        newspaper paper boat car bicycle wheel rope hammer basket bell candle mirror map pen pencil camera radio
        telephone ring coin blanket pillow umbrella bucket spoon fork plate glass pot kettle brush comb shirt shoe boot
        jacket dress glove scarf:scarves watch gift toy doll kite ball drum violin guitar piano flute ladder
        saw nail shovel axe broom needle button stamp envelope ticket parcel wallet purse suitcase lantern
        torch carpet curtain sofa cushion shelf:shelves cupboard desk bench stool cradle ship train cart wagon
        carriage bus lorry motorcycle engine machine computer printer keyboard screen battery cable tool screw
        wrench barrel jar jug bowl tray pan oven stove fridge trumpet harp necklace bracelet brooch crown sword
        shield arrow spear helmet flag anchor sail paddle compass telescope microscope thermometer calendar
        notebook diary dictionary magazine poster photograph painting statue vase tent sack trunk crate bandage
        towel sheet mattress wardrobe drawer chest safe padlock chain hook hinge pipe tap hose rake spade
        wheelbarrow tractor plough ribbon apron belt sock slipper sandal sweater uniform mask wig
        crayon ruler eraser typewriter projector microphone loudspeaker satellite rocket parachute
        balloon saddle bridle whip harness kennel cage trap net bait rod puzzle marble puppet whistle""",
    "PLACE": """house town city street river garden school market village church forest station shop farm field bridge
        mountain hill lake sea castle kitchen library hospital hotel park road island beach harbour palace tower office
        factory museum theatre bank post inn mill barn stable cave valley cottage cellar attic bedroom bathroom
        hall tunnel square port airport stadium university college prison temple chapel monastery cemetery
        bakery pharmacy restaurant cinema gallery laboratory workshop warehouse garage playground
        meadow orchard vineyard desert jungle swamp cliff waterfall volcano canyon glacier peninsula coast bay
        canal dam lighthouse windmill fountain courtyard balcony terrace corridor staircase lobby
        embassy parliament courthouse fortress ruin camp suburb district county province
        kingdom empire country nation continent border frontier pier wharf dock shipyard quarry mine
        zoo circus fairground racecourse gymnasium pond stream creek marsh moor heath pasture hamlet""",
    "THING": """story question answer idea plan problem name song word game lesson reason truth secret dream mistake
        promise message lie joke language number rule law poem report price plot chance choice decision opinion thought
        method theory fact detail example history science art habit custom belief faith hope fear doubt
        duty right task job trade skill talent trick riddle mystery legend fable novel chapter page sentence
         speech sermon lecture essay article advert contract treaty agreement argument quarrel debate
        discussion suggestion proposal request complaint excuse apology explanation description
        definition translation calculation measurement experiment discovery invention design pattern
        symbol signal warning threat order command wish desire ambition memory experience adventure
        journey holiday festival wedding funeral birthday ceremony concert performance competition contest
        battle war victory defeat crime punishment prize reward debt loan tax salary budget bargain profit
        loss risk danger accident disaster crisis:crises solution advantage opportunity possibility difficulty
        principle policy campaign election vote revolution tradition culture religion philosophy
        conversation interview rumour scandal""",
    "NATURE": """tree flower stone leaf:leaves star cloud rock branch rose root seed bush wave feather
        shell storm shadow oak pine daisy tulip lily violet fern ivy thorn twig log acorn chestnut pebble
        crystal diamond pearl ruby emerald comet planet moon rainbow snowflake icicle puddle petal vine willow maple
        birch poplar cactus orchid poppy sunflower hive nest web burrow cobweb footprint""",
    "BODY": """hand head face eye arm leg foot:feet finger hair ear nose mouth heart back shoulder knee neck tooth:teeth
        tongue chin cheek elbow wrist ankle toe thumb lip beard forehead eyebrow eyelid chest stomach:stomachs palm heel
        moustache""",
}
MATTER = """sand snow gold silver wood iron wool silk cotton grass hay straw dust mud smoke clay coal steel copper
    leather oil paint ink soap furniture luggage rubbish gravel cement plaster velvet linen"""
MASS_FOOD = """sugar salt butter rice flour honey jam cream chocolate mustard vinegar garlic corn wheat barley marmalade
    cinnamon ginger"""
UNITS_OF_TIME = "day week month year hour minute night morning evening summer winter season century moment weekend"
DAYS = "monday tuesday wednesday thursday friday saturday sunday"
MONTHS = "january february march april may june july august september october november december"
SEASONS = "summer winter spring autumn"
NAMES = words("""
    john mary peter anna tom jack sarah david emma george alice henry helen paul lucy james kate william jane
    robert martha daniel clara simon laura oliver rose edward ruth thomas julia arthur sophie frank nora victor
    irene walter grace charles agnes martin eva samuel olivia hugo ida oscar lily felix diana leo vera max edith adam
    hannah louis ellen albert molly philip susan richard margaret stephen barbara joseph dorothy benjamin harriet
    patrick florence andrew rebecca michael catherine anthony elizabeth nicholas charlotte francis caroline
    gregory beatrice leonard victoria vincent isabel herbert amelia norman gertrude stanley winifred harold
    mildred ernest josephine alfred penelope douglas rosemary kenneth veronica gordon cecilia malcolm
        theodora""")
CITIES = words("""
    london paris rome berlin vienna madrid dublin moscow boston chicago egypt india china africa america england
    france spain italy germany poland norway sweden greece japan canada russia scotland ireland
    wales prague budapest athens lisbon warsaw oslo venice florence naples geneva brussels amsterdam cairo
    brazil mexico australia denmark finland holland portugal hungary austria belgium switzerland""")
COLOURS = words("red blue green white black yellow brown grey pink purple golden scarlet crimson violet turquoise")
LANGUAGES = words("english french german latin polish spanish italian greek russian chinese arabic hebrew swedish")

# Verbs: `base` or `base/past/participle` where irregular; `past` alone stands for both.
VERBS = {
    "REST": """sleep/slept laugh smile sing/sang/sung dance cry wait work play dream rest talk swim/swam/swum
        wake/woke/woken
        sit/sat stand/stood lie/lay/lain listen pray whisper shout scream sneeze cough snore yawn sigh weep/wept
        nod bow kneel/knelt faint tremble shiver blush frown grin giggle whistle hum mumble stammer suffer
        recover survive die starve bleed/bled sweat agree disagree complain argue quarrel hesitate relax meditate
        concentrate succeed fail win/won lose/lost practise retire resign disappear vanish appear stumble slip
        stutter moan groan grumble chatter gossip breathe doze camp exercise struggle rejoice mourn""",
    "MOVE": """go/went/gone walk run/ran/run come/came/come return travel ride/rode/ridden drive/drove/driven hurry
        fly/flew/flown
        sail climb march rush wander jump crawl race move dash drift stroll gallop hike limp creep/crept sneak
        escape retreat flee/fled swing/swung skip hop row cycle skate stagger trot slide/slid
        migrate proceed advance roam stray scramble tiptoe float leap glide paddle plod""",
    "EAT": """eat/ate/eaten cook buy/bought like want bring/brought cut/cut/cut taste bake sell/sold share
        steal/stole/stolen
        order love hate try prepare serve boil fry roast chew swallow bite/bit/bitten peel slice chop smell digest
        devour nibble refuse crave season grill refrigerate freeze/froze/frozen dry grind/ground stir""",
    "DRINK_V": """drink/drank/drunk pour spill sip offer heat warm mix brew gulp strain dilute""",
    "HANDLE": """take/took/taken see/saw/seen find/found make/made hold/held carry break/broke/broken open close
        lose/lost
        need use drop throw/threw/thrown catch/caught clean paint hide/hid/hidden pull push build/built repair wash
        lift touch wear/wore/worn keep/kept borrow lend/lent pack draw/drew/drawn shake/shook/shaken burn polish
        examine choose/chose/chosen collect mend shut/shut/shut tie hang/hung measure weigh hit/hit/hit kick
        bury dig/dug fold tear/tore/torn sew/sewed/sewn knit/knit/knit decorate destroy damage replace receive
        deliver send/sent export import produce manufacture assemble invent design test inspect rent hire
        own possess inherit donate auction exchange trade smash crush bend/bent twist squeeze stretch scratch
        scrub sweep/swept wipe rinse dust unlock lock fasten loosen unpack wrap unwrap label store remove
        abandon rescue discover notice admire photograph sketch carve sharpen weld drill screw attach
        fetch gather grab snatch seize grasp rub drag haul load unload stack balance roll spin/spun wind/wound""",
    "MEET": """meet/met help call follow love visit know/knew/known ask thank tell/told teach/taught hear/heard watch
        kiss marry
        remember forget/forgot/forgotten leave/left trust fight/fought warn greet believe obey protect save
        punish forgive/forgave/forgiven praise blame invite advise comfort hug surprise frighten annoy amuse
        insult mock tease cheat betray deceive fool flatter respect despise envy pity miss recognise
        welcome accompany guide lead/led support defend attack arrest capture imprison release accuse
        suspect question interrogate criticise encourage inspire persuade convince threaten bribe kidnap
        rob hurt/hurt/hurt wound kill bless curse cure nurse feed/fed dress bathe adopt raise employ dismiss
        promote elect appoint crown salute challenge defeat beat/beat/beaten conquer entertain impress disappoint
        puzzle confuse offend ignore avoid neglect interrupt contact telephone scold""",
    "MIND": """understand/understood tell/told know/knew/known learn write/wrote/written hear/heard
        forget/forgot/forgotten
        explain remember read/read/read change repeat begin/began/begun finish answer discuss study solve describe
        accept consider mention invent copy start stop admit deny prove correct compare publish translate
        summarise recite memorise improve develop analyse investigate research imagine suggest propose reject
        support oppose approve question doubt confirm announce reveal conceal exaggerate simplify illustrate
        interpret define examine record celebrate organise cancel postpone arrange plan observe reconsider
        criticise defend justify predict outline submit revise edit print quote""",
    "SAY": """say/said think/thought know/knew/known believe hope feel/felt see/saw/seen hear/heard swear/swore/sworn
        suppose guess learn promise fear claim realise understand/understood notice discover doubt wish pretend
        insist declare imagine admit decide prove reply announce assume conclude confess suspect remark
        observe predict complain dream argue mention explain regret expect protest worry """,
    "WANT": """want try begin/began/begun like need hope decide learn promise refuse plan agree start love
        forget/forgot/forgotten
        hate fail offer prefer manage expect wish hesitate intend attempt threaten arrange continue prepare pretend
        deserve vow long""",
    "GIVE": """give/gave/given show/showed/shown send/sent bring/brought offer sell/sold lend/lent throw/threw/thrown
        hand pass pay/paid mail deliver present award""",
}
DOUBLED = words("""admit begin forget regret prefer permit occur control refer commit travel cancel label quarrel signal
    submit kidnap unwrap""")
UNGRADED = words("little tired honest loyal blind deaf lame")

ADJECTIVES = {
    "BIG": """old little big small new young great long short high large tall thin thick fat wide narrow deep heavy
        light
        clean dirty dry wet warm cold hot cool soft hard sharp round flat smooth rough bright dark strange lovely ugly
        fine cheap rare plain simple neat dull pale broad shiny rusty dusty muddy sticky tiny huge tidy messy sturdy
        quaint crude rich steep shallow loose tight stiff""",
    "PERSON_ADJ": """good happy sad kind tired angry poor rich clever brave strong weak quiet proud hungry busy lazy
        wise polite rude gentle honest noble fierce shy calm nice funny wild fair healthy lucky greedy friendly silly
        stern lonely naughty thirsty sleepy pretty grumpy gloomy merry jolly humble loyal bold cruel mean
        lively nasty crazy chatty blind deaf lame bald""",
    "LONG_PERSON_ADJ": """famous foolish careful anxious nervous generous selfish patient curious stubborn cheerful
        careless
        jealous faithful grateful ambitious intelligent ignorant charming handsome beautiful elegant graceful
        confident modest arrogant ashamed afraid worried frightened excited bored surprised disappointed exhausted
        satisfied respectable reliable dishonest impatient impolite unhappy unkind unlucky helpful helpless hopeful
        hopeless harmless reckless ruthless restless fearless homeless thoughtful truthful skilful youthful talented
        gifted educated experienced responsible sensible sensitive romantic energetic enthusiastic sympathetic
        optimistic pessimistic eccentric mysterious religious superstitious suspicious furious envious cautious
        courageous victorious industrious serious hilarious""",
    "THING_ADJ": """important difficult interesting wonderful terrible beautiful useful possible dangerous expensive
        secret common
        perfect correct wrong false true real serious curious ancient modern popular ordinary
        excellent awful horrible dreadful delightful pleasant unpleasant boring exciting amazing astonishing
        remarkable impossible necessary unnecessary essential particular peculiar familiar unfamiliar original
        practical political historical scientific artistic musical mathematical medical legal illegal official
        national international foreign local public private final previous recent eternal temporary permanent
        complicated elaborate complete incomplete accurate precise vague obvious valuable worthless magnificent
        splendid ridiculous absurd logical reasonable acceptable suitable traditional fashionable unusual typical
        moral tragic comic poetic dramatic fantastic magical mythical fatal harmful powerful meaningful""",
    "FOOD_ADJ": """fresh sweet hot cold delicious ripe sour bitter tasty salty spicy juicy raw stale creamy crispy
        greasy
        tender mouldy rotten frozen""",
    "MATERIAL": """wooden golden broken silver leather iron glass painted stolen plastic silk woollen brass bronze
        stone cotton velvet ivory marble copper antique electric mechanical portable foldable waterproof
        handmade empty full valuable worthless precious""",
    "BODY_ADJ": """left right cold warm sore swollen bare dirty clean injured bleeding wrinkled freckled""",
}
ADVERBS = {
    "MANNER": """slowly quickly quietly well loudly carefully gently happily softly suddenly sadly badly together alone
        easily bravely politely angrily gladly eagerly calmly secretly proudly patiently wisely kindly silently
        nervously cheerfully carelessly gracefully honestly foolishly anxiously generously selfishly stubbornly
        faithfully gratefully beautifully elegantly confidently modestly arrogantly impatiently rudely lazily clumsily
        hungrily thirstily sleepily merrily loyally boldly cruelly nobly fiercely lightly heavily deeply firmly
        roughly smoothly neatly seriously furiously cautiously suspiciously mysteriously energetically
        enthusiastically reluctantly deliberately accidentally immediately gradually constantly
        perfectly terribly wonderfully horribly dreadfully splendidly tirelessly desperately peacefully
        playfully thoughtfully skilfully stealthily breathlessly awkwardly barefoot alike upstairs downstairs outside
        inside abroad underground""",
    "OFTEN": "always never often sometimes usually rarely seldom still already probably certainly really hardly "
    "nearly almost finally simply truly frequently occasionally generally normally secretly definitely possibly "
    "clearly obviously actually apparently eventually merely",
    "VERY": "very so too quite rather really extremely terribly fairly unusually surprisingly incredibly awfully "
    "particularly remarkably exceptionally unbelievably",
}
OPENERS = words("""then now perhaps yesterday today suddenly once soon later finally tomorrow however meanwhile tonight
    luckily
    sometimes therefore unfortunately afterwards nowadays naturally strangely usually surprisingly
    sadly apparently eventually certainly fortunately consequently otherwise recently originally lately""")
DIGITS = words("two three four five six seven eight nine")
TEENS = words("ten twelve eleven fifteen fourteen sixteen thirteen eighteen seventeen nineteen")
TENS = words("twenty thirty forty fifty sixty seventy eighty ninety")
ORDINALS = words("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth")

VOWEL_SOUND = re.compile(r"(?!one\b|on[ce]|uni|use|usua|eu|ewe)[aeiou]|hour|honest|heir")


def plural(noun: str) -> str:
    """Return the regular plural of an English noun."""
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y$", noun) else noun + "s"


def stem_before_vowel(verb: str) -> str:
    """Return the verb's stem before -ed and -ing: the final consonant is doubled (stop, stopp-) if the stress requires
    it.
    """
    short = re.fullmatch(r"(qu|[^aeiou])*[aeiou][^aeiouwxy]", verb)
    return verb + verb[-1] if short or verb in DOUBLED else verb


def past(verb: str) -> str:
    """Return the regular past of an English verb."""
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else stem_before_vowel(verb) + "ed"


def progressive(verb: str) -> str:
    """Return the -ing form of an English verb."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    return verb[:-1] + "ing" if re.search(r"[^eo]e$", verb) else stem_before_vowel(verb) + "ing"


def graded(adjective: str, ending: str) -> str:
    """Return the comparative (er) or superlative (est) of a short English adjective."""
    if adjective == "good":
        return {"er": "better", "est": "best"}[ending]
    if adjective.endswith("e"):
        return adjective + ending[1:]
    return (
        adjective[:-1] + "i" + ending if re.search(r"[^aeiou]y$", adjective) else stem_before_vowel(adjective) + ending
    )


def noun_forms(entry: str) -> tuple[str, str]:
    """Return singular and plural of an entry "singular" or "singular:plural"."""
    singular, _, irregular = entry.partition(":")
    return singular, irregular or plural(singular)


def verb_forms(entry: str) -> dict[str, str]:
    """Return base, past, third person (S), progressive (ING) and participle (DONE) of "base[/past[/participle]]"."""
    base, *irregular = entry.split("/")
    done = irregular[-1] if irregular else past(base)
    third = {"have": "has"}.get(base, plural(base) if not base.endswith("o") else base + "es")
    return {
        "BASE": base,
        "PAST": irregular[0] if irregular else past(base),
        "S": third,
        "ING": progressive(base),
        "DONE": done,
    }


def categories() -> dict[str, list[str]]:
    """Return the words of each category, the most frequent first."""
    table = {
        "MATTER": MATTER, "MASS_FOOD": MASS_FOOD, "DAY": DAYS, "MONTH": MONTHS, "SEASON": SEASONS,
    }  # fmt: skip
    result = {name: words(text) for name, text in (table | ADJECTIVES | ADVERBS).items()}
    result |= {"CITY": CITIES, "COLOUR": COLOURS, "TONGUE": LANGUAGES, "OPENER": OPENERS, "ORDINAL": ORDINALS}
    result |= {"DIGIT": DIGITS, "TEEN": TEENS, "TEN": TENS, "NAME": NAMES, "NAME_OWN": [n + "'s" for n in NAMES]}
    for name, text in (NOUNS | {"UNIT": UNITS_OF_TIME}).items():
        forms = [noun_forms(entry) for entry in text.split()]
        result |= {name: [singular for singular, _ in forms], name + "S": [plural for _, plural in forms]}
    for name, text in VERBS.items():
        for form in FORMS:
            result[f"{name}_{form}"] = [verb_forms(entry)[form] for entry in text.split()]
    for name in ("BIG", "PERSON_ADJ"):
        for ending in ("er", "est"):
            result[f"{name}_{ending.upper()}"] = [
                graded(adjective, ending) for adjective in result[name] if adjective not in UNGRADED
            ]
    del result["DRINKS"]
    return {name: list(dict.fromkeys(members)) for name, members in result.items()}


def add_article_n(sentence: list[str]) -> list[str]:
    """Replace "a" by "an" before the sound of a vowel."""
    following = [*sentence[1:], ""]
    return [
        "an" if word == "a" and VOWEL_SOUND.match(after) else word
        for word, after in zip(sentence, following, strict=True)
    ]


FORMS = ("BASE", "PAST", "S", "ING", "DONE")
SPEAK = dict(zip(FORMS, words("speak spoke speaks speaking spoken"), strict=True))

# Each alternative is a production: weight, then symbols (capitals) and words.
GRAMMAR = """
SENTENCE
  12 STATEMENT | 2 OPENER STATEMENT | 1.5 WHEN STATEMENT | 2 STATEMENT WHEN | 2.5 STATEMENT JOIN STATEMENT
  2 QUESTION | 1.5 REQUEST | 1 EXISTENCE
STATEMENT
  9 ANYONE VERBS_PAST | 0.7 ANYONE OFTEN VERBS_PAST | 1.5 ONE VERBS_S | 0.4 ONE OFTEN VERBS_S | 1.2 MANY VERBS_BASE
  1 i VERBS_BASE | 0.4 i OFTEN VERBS_BASE | 2.5 ANYONE MODAL VERBS_BASE | 1.2 ONE IS VERBS_ING
  0.7 MANY ARE VERBS_ING | 0.4 i AM VERBS_ING | 0.8 ONE HAS VERBS_DONE | 0.6 MANY HAVE VERBS_DONE
  0.5 i HAVE VERBS_DONE | 0.5 SHORT_ING VERBS_ING | 0.5 SHORT_BASE VERBS_BASE | 0.4 SHORT_DONE VERBS_DONE
  1.4 ONE IS STATE | 0.8 MANY ARE STATE | 0.5 i AM STATE | 0.4 SHORT_ING STATE | 2 THING_IS
  1 DET ANIMAL MOVE_PAST PATH | 0.6 DET ANIMAL REST_PAST PLACE_PHRASE | 0.5 DETS ANIMALS MOVE_PAST PATH
  0.3 DETS ANIMALS ARE REST_ING | 0.3 it IS DET THING_ADJ THING | 0.3 ONE IS NUMBER years old
THING_IS
  2 DET OBJECT IS THING_STATE | 1 DETS OBJECTS ARE THING_STATE | 1 DET PLACE IS THING_STATE
  0.4 DETS PLACES ARE THING_STATE | 1 DET THING IS IDEA_STATE | 0.5 DETS THINGS ARE IDEA_STATE
  0.7 DET FOOD IS FOOD_ADJ | 0.4 DETS FOODS ARE FOOD_ADJ | 0.4 DET DRINK IS FOOD_ADJ | 0.5 DET NATURE IS COLOUR
  0.3 DETS NATURES ARE COLOUR | 0.6 DET ANIMAL IS BIG | 0.3 DETS ANIMALS ARE BIG | 0.5 OWN BODY IS BODY_ADJ
  0.3 OWN BODYS ARE BODY_ADJ | 0.6 DET OBJECT IS BIG_ER than DET OBJECT | 0.4 it IS the BIG_EST PLACE in CITY
  0.3 DET ANIMAL IS BIG_ER than DET ANIMAL | 0.3 it is THING_ADJ to VERBS_BASE
THING_STATE
  2 BIG | 1 VERY BIG | 1.5 COLOUR | 1 MATERIAL | 1 PLACE_PHRASE | 0.5 not BIG
IDEA_STATE
  3 THING_ADJ | 1.5 VERY THING_ADJ | 0.6 not THING_ADJ
STATE
  2 PERSON_ADJ | 1.5 VERY PERSON_ADJ | 2 LONG_PERSON_ADJ | 0.8 VERY LONG_PERSON_ADJ | 2 PLACE_PHRASE
  0.7 PERSON_ADJ_ER than PERSON_OBJECT | 0.5 the PERSON_ADJ_EST PERSON in the PLACE | 0.6 a PERSON_ADJ PERSON
  0.6 not PERSON_ADJ | 0.4 a LONG_PERSON_ADJ PERSON | 0.3 from CITY
EXISTENCE
  2 there IS a OBJECT PLACE_PHRASE | 1 there IS a BIG PLACE near the PLACE | 1 there ARE NUMBER PERSONS in the PLACE
  1 there ARE NUMBER ANIMALS in the PLACE | 0.6 there ARE many OBJECTS PLACE_PHRASE | 0.6 there IS no MASS_FOOD
  0.6 there ARE no NATURES near the PLACE | 0.3 there IS no DRINK
QUESTION
  2 did ANYONE VERBS_BASE | 1 where did ANYONE MOVE_BASE | 1 why did ANYONE VERBS_BASE | 0.7 when will ANYONE VERBS_BASE
  1.2 who VERBS_PAST | 0.6 what did ANYONE HANDLE_BASE | 0.4 what did ANYONE SAY_BASE | 0.8 does ONE VERBS_BASE
  0.8 do MANY VERBS_BASE | 0.8 can you VERBS_BASE | 0.5 how many OBJECTS did ANYONE HANDLE_BASE
  0.4 which OBJECT did ANYONE HANDLE_BASE | 0.5 is ONE STATE | 0.4 are MANY STATE | 0.3 whose OBJECT is this
  0.5 where is DET OBJECT | 0.3 where are DETS OBJECTS | 0.3 how BIG is DET PLACE | 0.2 what is DET THING
REQUEST
  1 please VERBS_BASE | 1 don't VERBS_BASE | 0.5 let us VERBS_BASE | 0.3 let's VERBS_BASE | 0.7 VERBS_BASE please
ANYONE
  5 ONE | 3 MANY | 3 i
ONE
  4 he | 4 she | 4 NAME | 5 DET PERSON | 1.5 the PERSON_ADJ PERSON | 0.8 the LONG_PERSON_ADJ PERSON
  0.8 NAME_OWN PERSON
  0.4 everyone | 0.4 someone | 0.3 nobody | 0.4 the PERSON from CITY | 0.3 the ORDINAL PERSON | 0.4 the BIG PERSON
  0.3 one of the PERSONS
MANY
  3 they | 3 we | 2 you | 2 DETS PERSONS | 0.6 the PERSON_ADJ PERSONS | 0.3 the LONG_PERSON_ADJ PERSONS
  0.8 NAME and NAME | 0.3 both PERSONS
DET
  8 the | 4 a | 2 my | 1.5 his | 1.5 her | 0.8 our | 0.8 their | 0.8 your | 0.6 this | 0.6 that | 0.3 every
  0.3 another
DETS
  6 the | 1 my | 1 his | 1 her | 0.6 our | 0.6 their | 0.6 your | 0.5 these | 0.5 those | 1 some | 0.5 many | 2.5 NUMBER
  0.5 all the | 0.4 several | 0.3 a few | 0.2 most
OWN
  2 my | 2 his | 2 her | 1 your | 1 their | 1 our
NUMBER
  4 DIGIT | 2 TEEN | 1 TEN | 1 TEN DIGIT | 0.2 TEN one | 0.5 DIGIT hundred | 0.4 a hundred | 0.3 DIGIT thousand
  0.2 a thousand
IS
  4 was | 2.5 is | 0.3 wasn't | 0.3 isn't
ARE
  4 were | 2.5 are | 0.3 weren't | 0.3 aren't
AM
  1 am | 1.2 was
HAS
  1.5 has | 2 had | 0.3 hasn't | 0.3 hadn't
HAVE
  1.5 have | 2 had | 0.3 haven't
MODAL
  2 will | 2 would | 2 can | 2 could | 1.5 must | 1.5 should | 0.7 may | 0.7 might | 1 can't | 1 couldn't | 1.5 didn't
  0.7 won't | 0.6 wouldn't | 0.4 shouldn't | 0.5 will never | 0.5 could not
SHORT_ING
  2 i'm | 1 he's | 1 she's | 1 we're | 1 they're | 1 you're
SHORT_BASE
  2 i'll | 1 we'll | 0.7 he'll | 0.7 she'll | 0.7 they'll | 1 i don't | 0.7 he doesn't | 0.7 she doesn't | 0.6 i'd
SHORT_DONE
  2 i've | 1 we've | 0.7 they've | 0.7 you've
JOIN
  4 and | 3 but | 2 because | 1.5 when | 1 while | 1 so | 1 if | 0.7 before | 0.7 after | 0.5 or | 0.4 until
  0.4 although
WHEN
  2 on DAY | 1 in MONTH | 1 in the SEASON | 1 last UNIT | 1 every UNIT | 0.7 next UNIT | 1 NUMBER UNITS ago
  0.7 at CLOCK o'clock | 0.5 an hour ago | 0.6 all day | 0.6 in the morning | 0.6 in the evening | 0.6 at night
  0.4 for NUMBER UNITS | 0.4 again | 0.3 that UNIT | 0.3 one UNIT | 0.3 on DAY morning | 0.3 on the ORDINAL of MONTH
CLOCK
  3 DIGIT | 1 TEEN
PERSON_OBJECT
  2 him | 2 her | 1.5 them | 1.5 me | 1 us | 1 you | 2 NAME | 4 DET PERSON | 1 DET PERSON_ADJ PERSON
  0.5 DET LONG_PERSON_ADJ PERSON | 1.2 DETS PERSONS | 0.6 NAME_OWN PERSON
FOOD_OBJECT
  4 DET FOOD | 1.5 DET FOOD_ADJ FOOD | 2.5 DETS FOODS | 0.7 some MASS_FOOD | 0.6 FOOD with MASS_FOOD
  0.5 DETS FOOD_ADJ FOODS | 0.3 FOODS and FOODS
DRINK_OBJECT
  2 DET DRINK | 1.5 some DRINK | 1 a cup of DRINK | 0.8 a glass of DRINK | 0.7 a bottle of DRINK | 0.5 FOOD_ADJ DRINK
THING_OBJECT
  6 DET OBJECT | 2 DET BIG OBJECT | 1.2 DET COLOUR OBJECT | 1 DET MATERIAL OBJECT | 2.5 DETS OBJECTS
  0.8 NAME_OWN OBJECT | 0.4 DET BIG COLOUR OBJECT | 0.7 it | 0.5 them | 1 DET NATURE | 0.5 DETS NATURES
  0.7 some MATTER
  0.8 DET ANIMAL | 0.3 DETS ANIMALS | 0.4 DETS BIG OBJECTS | 0.4 DET COLOUR NATURE | 0.3 DET OBJECT of MATTER
GIVEN_OBJECT
  5 DET OBJECT | 2 DETS OBJECTS | 1 DET COLOUR OBJECT | 1 DET FOOD | 0.5 some MASS_FOOD | 0.5 DET BIG OBJECT
IDEA_OBJECT
  5 DET THING | 2.5 DET THING_ADJ THING | 2 DETS THINGS | 0.5 everything | 0.4 nothing | 0.5 something
  0.5 NAME_OWN THING | 0.4 DETS THING_ADJ THINGS | 0.3 THING and THING | 0.5 the ORDINAL THING
PATH
  4 to the PLACE | 1.2 into the PLACE | 1.2 from the PLACE | 0.8 through the PLACE | 0.6 across the PLACE
  0.5 towards the PLACE | 0.4 along the PLACE | 0.8 to CITY | 0.4 from CITY | 1 home | 0.6 away | 0.4 past the PLACE
  0.4 around the PLACE | 0.7 to DET BIG PLACE | 0.3 over the NATURE | 0.4 with PERSON_OBJECT | 0.3 without PERSON_OBJECT
PLACE_PHRASE
  4 in the PLACE | 1 at the PLACE | 1 near the PLACE | 0.8 in DET BIG PLACE | 0.7 behind the PLACE
  0.4 in front of the PLACE | 0.8 under the NATURE | 1 on the OBJECT | 0.6 under the OBJECT | 0.6 in CITY
  0.5 beside the PLACE | 0.4 outside the PLACE | 0.4 between the NATURES | 0.3 in DETS PLACES | 0.3 by the PLACE
  0.3 above the PLACE | 0.3 among the NATURES | 0.3 in the MATTER | 0.3 against the OBJECT
"""
VERB_PHRASES = """
VERBS_{T}
  3 REST_{T} | 1 REST_{T} MANNER | 1.5 REST_{T} PLACE_PHRASE | 5 MOVE_{T} PATH | 0.6 MOVE_{T} MANNER
  3 EAT_{T} FOOD_OBJECT | 1 DRINK_V_{T} DRINK_OBJECT | 5 HANDLE_{T} THING_OBJECT
  1 HANDLE_{T} THING_OBJECT PLACE_PHRASE
  0.6 HANDLE_{T} THING_OBJECT MANNER | 0.6 HANDLE_{T} OWN BODY | 0.4 HANDLE_{T} OWN BODYS | 4 MEET_{T} PERSON_OBJECT
  0.7 MEET_{T} PERSON_OBJECT PLACE_PHRASE | 3.5 MIND_{T} IDEA_OBJECT | 0.5 {speak} TONGUE | 2 SAY_{T} that STATEMENT
  2 WANT_{T} to VERBS_BASE | 2 GIVE_{T} PERSON_OBJECT GIVEN_OBJECT | 0.5 {speak} to PERSON_OBJECT
"""


def language() -> Language:
    """Return the English language."""
    verb_phrases = "".join(VERB_PHRASES.format(T=form, speak=SPEAK[form]) for form in FORMS)
    return Language(parse_grammar(GRAMMAR + verb_phrases), categories(), add_article_n, ACCENTS)
