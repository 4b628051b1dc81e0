package task

import (
	"fmt"
	"regexp"
	"strings"
)

// JudgeBy returns a grader by a rule that only decides whether an answer is right. A blank answer is silent.
func JudgeBy(right func(answer string) bool) func(string) Verdict {
	return func(answer string) Verdict {
		switch {
		case strings.TrimSpace(answer) == "":
			return Silent
		case right(answer):
			return Right
		}
		return Wrong
	}
}

func containsGrader(key string) func(string) Verdict {
	return JudgeBy(func(answer string) bool { return strings.Contains(answer, key) })
}

// containsCutGrader grades an answer that a limit ended: it is right as soon as it contains the key.
func containsCutGrader(key string) func(string) Verdict {
	return func(answer string) Verdict {
		if strings.Contains(answer, key) {
			return Right
		}
		return Silent
	}
}

// patternGraders grades by whether the answer contains a match of a regular expression in the syntax of package regexp,
// whatever the case of letters, and an answer that was cut as soon as it does.
func patternGraders(key string) (grade, gradeCut func(string) Verdict, err error) {
	re, err := regexp.Compile("(?i)" + key)
	if err != nil {
		return nil, nil, fmt.Errorf(`the "answer" is no pattern: %w`, err)
	}
	gradeCut = func(answer string) Verdict {
		if re.MatchString(answer) {
			return Right
		}
		return Silent
	}
	return JudgeBy(re.MatchString), gradeCut, nil
}

// exactGrader grades by whether the answer equals the key, except for case, spaces and a full stop at the end.
func exactGrader(key string) func(string) Verdict {
	plain := func(s string) string {
		return strings.TrimSuffix(strings.ToLower(strings.Join(strings.Fields(s), " ")), ".")
	}
	return JudgeBy(func(answer string) bool { return plain(answer) == plain(key) })
}
