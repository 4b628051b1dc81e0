package task

// The AI2 Reasoning Challenge (Clark et al., arXiv 1803.05457): science questions for schools, each with three to five
// options A to E or 1 to 5. Answers are graded by [choice].

// arcInstruction follows each question and its options, in the format of csqa.go.
const arcInstruction = "Think about it in one or two sentences. " +
	`Then end with "The answer is X.", where X is the label of your choice.`
