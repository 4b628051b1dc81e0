package task

// CommonsenseQA (Talmor, Herzig, Lourie and Berant, NAACL 2019): 1,221 questions of the development split, each with
// five options A to E. 24 of them have two options with the same text. Answers are graded by [choiceGrader].

// csqaInstruction follows each question and its options, which look like this:
//
//	Question: Where would you find magazines along side many other printed works?
//	A. doctor
//	B. bookstore
//	…
const csqaInstruction = "Think about it in one or two sentences. " +
	`Then end with "The answer is X.", where X is the letter of your choice.`

func csqa() *Benchmark {
	return &Benchmark{
		Name: CSQA, About: "CommonsenseQA, 1,221 questions with five options", Examples: true,
		Source: "Talmor, Herzig, Lourie and Berant, NAACL 2019: the development split",
		File: File{
			URL: "https://s3.amazonaws.com/commensenseqa/dev_rand_split.jsonl", Name: "csqa-dev.jsonl", Size: 471_653,
			SHA256: "3210497fdaae614ac085d9eb873dd7f4d49b6f965a93adadc803e1229fd8a02a",
		},
		Training: File{
			URL: "https://s3.amazonaws.com/commensenseqa/train_rand_split.jsonl", Name: "csqa-train.jsonl",
			Size:   3_785_890,
			SHA256: "58ffa3c8472410e24b8c43f423d89c8a003d8284698a6ed7874355dedd09a2fb",
		},
		newSet: func(Runner) *Set {
			return newAnswerSet(CSQA+"-1", csqaShots(), 128, multipleChoiceParser(csqaInstruction))
		},
	}
}

func csqaShots() []Question {
	return []Question{
		{Text: `Question: What do you open before you step out of a house?
A. window
B. umbrella
C. front door
D. letter
E. drawer
` + csqaInstruction,
			Reference: `People leave a house through its door, and it has to be open for that. The answer is C.`},
		{Text: `Question: The milk had been out in the sun all day, so what did she do with it?
A. drink it
B. pour it away
C. paint with it
D. sell the sun
E. wear it
` + csqaInstruction,
			Reference: `Milk that is warm for a day turns sour, and nobody wants to drink it then. The answer is B.`},
		{Text: `Question: Where does a sparrow raise its young?
A. nest
B. oven
C. river bed
D. classroom
E. suitcase
` + csqaInstruction,
			Reference: `Sparrows are birds, and birds lay eggs in a nest and feed their young there. The answer is A.`},
		{Text: `Question: Why would somebody set an alarm clock?
A. to cook rice
B. to fall asleep
C. to stop time
D. to be on time
E. to hear music
` + csqaInstruction,
			Reference: `An alarm wakes people who have to be somewhere in the morning. The answer is D.`},
	}
}
