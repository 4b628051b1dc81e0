package task

// CommonsenseQA (Talmor, Herzig, Lourie and Berant, NAACL 2019): 1,221 questions of the development split, each with
// five options A to E. 24 of them have two options with the same text. Answers are graded by [choice].

// csqaInstruction follows each question and its options, which look like this:
//
//	Question: Where would you find magazines along side many other printed works?
//	A. doctor
//	B. bookstore
//	…
const csqaInstruction = "Think about it in one or two sentences. " +
	`Then end with "The answer is X.", where X is the letter of your choice.`
