package task

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFinalNumber: typical answers of models, and their final numbers.
func TestFinalNumber(t *testing.T) {
	for answer, want := range map[string]string{
		"9 * 2 = 18\n#### 18": "18", "The answer is 18.": "18", "the answer is: $1,234.50": "1234.5",
		"#### -7": "-7", "#### 1,000,000": "1000000", "The answer is **42**": "42", "So 3 + 4 = 7 apples": "7",
		"The answer is 5 + 13 = 18 dollars a day": "18", "The answer is 18 eggs in 7 days": "18",
		"The answer is 4. The answer is 5": "5", "Answer: .5": "0.5", "Answer: 0.50": "0.5", "Answer: 007": "7",
		"10-3": "3", "x-3": "3", "A-3": "3", "Z-3": "3", "a-3": "3", "(4)-3": "3",
		"it is -3": "-3", "it is −3": "-3", "-$5": "-5", "$-5": "-5", "-0": "0",
		"-0.0": "0", "1,2,3": "3", "1,23": "23", "12,345": "12345", "1234,567": "567", "2.": "2", "3.4.5": "0.5",
		"The answer is clear: 12 of them": "12", "The answer is that there is none. 8": "8", "none": "", "": "",
		"18 of 20. The answer is eighteen": "20", "#### 12 #### ": "12", "50%-3": "3", "answer is\n\n 77": "77",
		"The answer is:\r\n18\r\nof 20": "18", "The answer is 9 =": "9",
		"a 5, b = 6 =c": "6", "1,0000": "0", "Answer: 5 = 6 = 7": "7", "The answer is about $2 million": "2",
	} {
		got, ok := finalNumber(answer)
		assert.Equal(t, want, got, "%q", answer)
		assert.Equal(t, want != "", ok, "%q", answer)
	}
}

func TestNumberVerdict(t *testing.T) {
	grade, gradeCut, err := numberGraders("1,234.50")
	require.NoError(t, err)
	for answer, want := range map[string]Verdict{
		"The answer is $1234.5": Right, "1234": Wrong, "many": Silent, "-1234.5": Wrong, "": Silent,
	} {
		assert.Equal(t, want, grade(answer), answer)
	}
	for answer, want := range map[string]Verdict{
		"The answer is 1234.5. So": Right, "#### 1234.5\n": Right, "1234.5": Silent,
		"So 3 + 1231.5 = 1234.5. Then": Silent,
		"The answer is 1234.5":         Silent, "The answer is 1234.5.": Silent, "The answer is 1234.5 = 5": Silent,
		"":                                       Silent,
		"The answer is 1 + 1233.5 = 1234.5! Yes": Right, "The answer is 5. Or 1234.5": Wrong,
		"The answer is 5. No: the answer is 1234.5": Wrong,
	} {
		assert.Equal(t, want, gradeCut(answer), answer)
	}
	_, _, err = numberGraders("many")
	assert.ErrorContains(t, err, `the answer "many" is not a number`)
}

// TestConcludes: an answer that ends with the words before a conclusion, with or without a colon, concludes.
func TestConcludes(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "The answer": false, "The answer is": true, "The answer is:": true, "Answer:": true, "####": true,
		"The answer is ": false, "The answer is B": false, "the answer choice would be": true,
		"The answer is B. The answer is": true,
	} {
		assert.Equal(t, want, Concludes(text), text)
	}
}

// FuzzNumber: grading any text does not panic, numbers are normalized, and a conclusion appended to any text decides.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"#### 18", "answer is -$1,234.50", "−.5", "1,2",
		"9999999999999999999999", "=", "\xff1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		n, ok := finalNumber(answer)
		if ok {
			again, _ := finalNumber(n)
			assert.Equal(t, n, again)
			assert.Regexp(t, `^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$`, n)
		}
		last, _ := finalNumber(answer + "\nThe answer is 12.")
		assert.Equal(t, "12", last)
	})
}
