"""What each number of a comparison means, in one place: the page shows it, and docs/statistics.md holds the same."""

DEFINITIONS = {
    "difference": "The arm's mean over seeds less the baseline's, in percentage points (nats for the loss), on the "
    "utterances that all runs have. A run that diverged counts as 100 % WER.",
    "CER (longer)": "Characters in error over the longer of reference and hypothesis, summed over the utterances of a "
    "set; CER is over the reference.",
    "interval": "The difference ± the half width at the level of the verdict. It excludes 0 exactly where a difference "
    "is shown.",
    "p": "Of the verdict's test, over seeds and speakers together, before any correction.",
    "Holm": "p after Holm's correction over all contrasts of the set; a difference is shown at 0.05 or less.",
    "SE seeds": "Standard error of the difference over seeds alone.",
    "SE speakers": "Standard error of the difference over speakers alone, by bootstrap.",
    "detectable": "The true difference that such runs find in four cases of five, with a 90 % interval of its own.",
    "matched pairs p": "MAPSSWE on the utterances of these trained models, after Holm's correction. It says nothing of "
    "other seeds, and decides nothing.",
    "decides, describes": "The declared test set decides. Verdicts on the other sets are corrected among themselves "
    "and describe.",
    "look": "How many different states of this sweep have been compared. Where the number of runs was not declared "
    "beforehand, or was looked at before all had ended, the interval is one that holds however often one looks.",
    "trimmed means": "Where a run of any arm diverged, and from five seeds on: without the best and the worst fifth of "
    "an arm's runs (Yuen 1974).",
    "has not learned": "A WER above 90 %. Where neither side has learned there is no verdict.",
    "look (planned)": "Of a sweep that adds seeds until it knows: a number of seeds of each arm, named before the "
    "first run, at which the open questions are tested. All looks together claim a difference that does not exist with "
    "a chance of at most α.",
    "repeated interval": "The interval at a planned look, wide enough to hold at all looks at once (Jennison & "
    "Turnbull 1984).",
    "margin": "The difference that would not matter, named before the first run.",
    "equivalent": "No difference is shown, and the repeated interval for equality lies within ± the margin: two "
    "one-sided tests, each at α over the number of questions.",
    "open": "Neither different nor equivalent at the latest planned look: further seeds are added.",
    "undecided": "No verdict: the seeds of the plan are used up, or the chance of a verdict was too small to go on, or "
    "the evidence has no noise to judge by. The sentence says which.",
    "chance of a verdict": "By the data so far, that the last planned look shows a difference or equality (predictive "
    "probability; Spiegelhalter, Freedman & Blackburn 1986). Below until.hopeless a question is given up.",
}
