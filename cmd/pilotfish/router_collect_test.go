package main

// pairTests returns the tests of the flags that name two models.
func pairTests() map[string]string {
	return map[string]string{
		"model": "TestCollectPair", "large": "TestCollectPair", "cloud": "TestCollectPair", "pin": "TestCollectPair",
		"ctx": "TestCollectPair", "kv": "TestCollectPair", "exact": "TestCollectPair", "threads": "TestPairFlags",
		"backend": "TestPairFlags", "huge-pages": "TestPairFlags", "token-file": "TestPairFlags",
		"no-resume": "TestPairFlags", "dictionary": "TestPairFlags",
	}
}
