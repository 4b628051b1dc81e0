package task

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// magazines returns a question of CommonsenseQA with five options.
func magazines() []option {
	return []option{{"A", "doctor"}, {"B", "bookstore"}, {"C", "market"}, {"D", "train station"}, {"E", "mortuary"}}
}

// concludedChoices returns answers with a conclusion, which choose the option after the last "answer is".
func concludedChoices() map[string]string {
	return map[string]string{
		"The answer is B.":  "B",
		"the answer is (b)": "B",
		"Magazines are sold there. The answer is **D**.":          "D",
		"The answer is A because one waits there.":                "A",
		"The answer is a doctor":                                  "doctor",
		"The answer is: C":                                        "C",
		"Answer: E. mortuary":                                     "E",
		"answer = \\boxed{C}":                                     "C",
		"The correct answer is option D":                          "D",
		"The answer is the train station, since B is a shop.":     "train station",
		"The answer is A. No, wait, the answer is B":              "B",
		"The answer is B. That answer is what I would give.":      "B",
		"The answer is:\n\nB\n":                                   "B",
		"The answer is:\n\nB\nC is wrong":                         "B",
		"The answer should be \"C\"":                              "C",
		"The answer is B-rated films? The answer is E":            "E",
		"The answer is Bookstore":                                 "bookstore",
		"The best answer choice is D)":                            "D",
		"The answer is C, not (B) or (A).":                        "C",
		"The answer is either a bookstore or a market. (B)":       "B",
		"My answer is Doctor's":                                   "doctor",
		"The answer would be A - doctor":                          "A",
		"An answer is needed. B":                                  "B",
		"The answer is not given":                                 "",
		"If the answer is 'mortuary', fine. Answer: mortuary":     "mortuary",
		"I think the answer is E, E for end":                      "E",
		"The answer is X.":                                        "",
		"The answer is BB":                                        "",
		"The answer is C's":                                       "",
		"Final answer is D\nQuestion: the next one? The answer i": "D",
		"the answer is c because of that":                         "",
		"The answer is **(C)** market":                            "C",
		"The answer is $\\text{A}$":                               "A",
		"The answer is market or train station, The answer is D":  "D",
		"The answer is neither A nor B.":                          "",
		"The answer is 'B'":                                       "B",
		"I cannot tell. The Answer Is: b.":                        "B",
		"The answer is D train station":                           "D",
		"The answer is option b. The others are worse":            "B",
		"The answer must be C because of that":                    "C",
		"The answer is choice D.":                                 "D",
		"The answer is __E__ I think":                             "E",
		"The answer is `C`, not B":                                "C",
		"The answer is ’B’.":                                      "B",
		"#### C":                                                  "C",
		"The answer is:C":                                         "C",
		"B - market":                                              "B",
		"The answer is option B, not option C.":                   "B",
		"the  answer  is C":                                       "C",
		"Asked for an answer: it depends. The answer will be E).": "E",
		"Bookstore sells magazines, so the answer is":             "bookstore",
	}
}

// TestChoice: typical answers of models, and the options that they choose by each rule.
func TestChoice(t *testing.T) {
	for rule, cases := range map[string]map[string]string{
		"the option after the last conclusion": concludedChoices(),
		"a label at the beginning": {
			"B": "B", " b\n": "B", "B.": "B", "(C) market": "C", "D) train station": "D", "E: there": "E",
			"B\nbecause": "B", "A.": "A", "A doctor has them in the waiting room": "doctor", "**B**": "B",
			"C - market": "C", "A - sure": "A", "A, B and C": "", "Be careful": "", "[D]": "D",
		},
		"the only label": {
			"I would go for B": "B", "It must be option D here": "D", "choose (e), not the rest": "E",
			"Either B or C": "", "I think so": "", "A bird in the hand": "", "Plan B is the bookstore": "B",
			"Take (B), and again (B)": "B", "vitamin C. and U.S. D": "", "I'd say D": "D", "Dr. E's": "",
			"grade (F)": "",
		},
		"the only text of an option": {
			"You find them in a bookstore.": "bookstore", "BOOKSTORE!": "bookstore", "the bookstores": "",
			"bookstore or market": "", "at a train  station": "train station", "trainstation": "", "": "",
			"   \n": "", "42": "",
		},
	} {
		t.Run(rule, func(t *testing.T) {
			for answer, want := range cases {
				label, text := findChoice(magazines(), answer)
				assert.Equal(t, want, label+text, "%q", answer)
			}
		})
	}
}

// TestChoiceParts: an option that is part of a longer one does not match inside it.
func TestChoiceParts(t *testing.T) {
	o := []option{{"A", "learn"}, {"B", "learn from each other"}, {"C", "talk"}, {"D", "?!"}}
	for answer, want := range map[string]string{
		"People learn from each other.": "learn from each other", "People learn.": "learn", "to learn and to talk": "",
		"They talk, learn from each other": "", "!?": "",
	} {
		for range 2 { // in both orders
			_, text := findChoice(o, answer)
			assert.Equal(t, want, text, answer)
			slices.Reverse(o)
		}
	}
}

// TestChoiceDigits: digits are labels, too, but not every number is a label.
func TestChoiceDigits(t *testing.T) {
	o := []option{{"1", "an acid"}, {"2", "a base"}, {"3", "a salt"}, {"4", "water"}}
	for answer, want := range map[string]string{
		"3": "3", "The answer is 2.": "2", "The answer is 2.5 grams": "", "(4)": "4", "4 legs": "",
		"option 3 it is": "3", "The answer is 42": "", "1.5 g of it": "",
		"The answer is 3 since salt": "3", "2. a base": "2", "The answer is 2 4 times": "2",
	} {
		label, text := findChoice(o, answer)
		assert.Equal(t, want, label+text, answer)
	}
}

// TestChoiceVerdict: a label is right if it is the key; a text is also right if it equals the text of the key's option.
func TestChoiceVerdict(t *testing.T) {
	twins := []option{{"A", "bank"}, {"B", "a mall"}, {"C", "A Mall."}, {"D", "library"}}
	for answer, want := range map[string]Verdict{
		"The answer is C.": Right, "The answer is B.": Wrong, "a mall": Right, "The answer is a mall.": Right,
		"bank": Wrong, "The answer is D": Wrong, "the sea": Silent, "": Silent,
	} {
		assert.Equal(t, want, choiceGrader(twins, "C")(answer), answer)
	}
	assert.Equal(t, Right, choiceGrader(twins, "B")("a mall"))
	signs := []option{{"A", "+"}, {"B", "-"}}
	assert.Equal(t, Wrong, choiceGrader(signs, "B")("The answer is A."), "options without words are never equal")
	assert.Equal(t, Silent, choiceGrader(signs, "B")("-"))
	assert.Equal(t, []string{"wrong", "right", "silent"}, []string{Wrong.String(), Right.String(), Silent.String()})
}

// TestChoiceCut: of an answer that a limit ended only a label of a conclusion counts, or one that it begins with; a
// word at its end is incomplete.
func TestChoiceCut(t *testing.T) {
	o := []option{{"A", "bank"}, {"B", "a mall"}, {"C", "cat"}}
	for answer, want := range map[string]Verdict{
		"The answer is B.": Right, "The answer is B because": Right, "**The answer is B.** It": Right,
		"B. a mall sel": Right,
		"(B) a ma":      Right, "The answer is A. No, the answer is B. Sin": Right, "B. But the answer is C. S": Wrong,
		"The answer is A. The answer is ": Wrong, "The answer is B": Silent, "The answer is a mall. It": Silent,
		"I would go for B since": Silent, "a mall": Silent, "": Silent,
	} {
		assert.Equal(t, want, choiceCutGrader(o, "B")(answer), answer)
	}
}

// FuzzChoice: grading any text does not panic, it chooses an existing option, and a conclusion appended to any text
// decides.
func FuzzChoice(f *testing.F) {
	for _, s := range []string{"The answer is B.", "(c)", "option é", "\xff\xfe A", "answer:", "A'b", "İ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		o := magazines()
		label, text := findChoice(o, answer)
		assert.True(t, label == "" || text == "")
		assert.True(t, label == "" || strings.Contains("ABCDE", label) && len(label) == 1, label)
		assert.Contains(t, []string{"", "doctor", "bookstore", "market", "train station", "mortuary"}, text)
		last, _ := findChoice(o, answer+"\nThe answer is D.")
		assert.Equal(t, "D", last)
	})
}
