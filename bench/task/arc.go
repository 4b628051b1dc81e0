package task

// The AI2 Reasoning Challenge (Clark et al., arXiv 1803.05457): science questions for schools, each with three to five
// options A to E or 1 to 5. Answers are graded by [choiceGrader].

// arcInstruction follows each question and its options, in the format of csqa.go.
const arcInstruction = "Think about it in one or two sentences. " +
	`Then end with "The answer is X.", where X is the label of your choice.`

// arcFiles are the files of the archive ARC-V1-Feb2018-2, one by one, from a copy at a fixed commit.
const arcFiles = "https://raw.githubusercontent.com/pangr2/dataset_collection/" +
	"52d6686c0aef1a55241f3fc8f42345b1af9ce544/ARC-V1-Feb2018/ARC-V1-Feb2018-2/ARC-Challenge/"

func arc() *Benchmark {
	return &Benchmark{
		Name: ARC, About: "ARC, the challenge set, 1,172 questions of science", Examples: true,
		Source: "Clark et al., arXiv 1803.05457: the test split, from a copy of the archive's files",
		File: File{
			URL: arcFiles + "ARC-Challenge-Test.jsonl", Name: "arc-test.jsonl", Size: 492_726,
			SHA256: "9fa8ffb3e3a1f88cb302d53dd95aae81e39209ad9bcf974376b319d8fd35717c",
		},
		Training: File{
			URL: arcFiles + "ARC-Challenge-Train.jsonl", Name: "arc-train.jsonl", Size: 461_680,
			SHA256: "e02837c53ee86f6d73c259f91c77725c5062ef4531130b7f473a9d9b01118a77",
		},
		newSet: func(Runner) *Set {
			return newAnswerSet(ARC+"-1", arcShots(), 320, multipleChoiceParser(arcInstruction))
		},
	}
}

func arcShots() []Question {
	return []Question{
		{Text: `Question: A metal spoon stands in a cup of hot tea. Why does its handle become warm?
A. The spoon makes heat of its own.
B. Metal conducts heat from the tea.
C. The tea rises inside the spoon.
D. The cup shines on the handle.
` + arcInstruction,
			Reference: `Heat moves through metal from the hot end to the cold one, which is conduction. ` +
				`The answer is B.`},
		{Text: `Question: Which of these does a green plant take from the air to make sugar?
A. nitrogen
B. helium
C. dust
D. carbon dioxide
` + arcInstruction,
			Reference: `Photosynthesis makes sugar of water and carbon dioxide in the light. The answer is D.`},
		{Text: `Question: A ball that rolls over grass slows down and stops. What stops it?
A. friction
B. its colour
C. sound
D. magnetism
` + arcInstruction,
			Reference: `The grass rubs against the ball and takes its motion away, which is friction. ` +
				`The answer is A.`},
		{Text: `Question: What makes day and night on Earth?
A. the Moon moves before the Sun
B. the Sun goes out
C. the Earth turns around its axis
D. clouds gather each evening
` + arcInstruction,
			Reference: `As the Earth turns, each place faces the Sun and then turns away. The answer is C.`},
	}
}
