package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// TokenVariable is the environment variable with the access token.
const TokenVariable = "PILOTFISH_TOKEN"

// Secret reads the access token of this device: from the file of --token-file if that was given, else from the
// environment. found is false if there is none. An empty token is an error, since its presence shows that a token is
// wanted. Errors do not contain what was read.
func (a *App) Secret(path string, given bool) (secret string, found bool, err error) {
	from := TokenVariable
	if given {
		from = "--token-file " + path
		b, err := ReadSmall(path, MaxSecrets)
		if err != nil {
			return "", false, fmt.Errorf("--token-file: %w", err)
		}
		secret = string(b)
	} else if secret, found = os.LookupEnv(TokenVariable); !found {
		return "", false, nil
	}
	switch secret = strings.TrimSpace(secret); {
	case secret == "":
		err = errors.New("the access token is empty: put one there, or leave it out altogether")
	case strings.ContainsAny(secret, "\r\n"):
		err = errors.New("more than one line: a device has one access token, and nothing else in the file")
	default:
		return secret, true, nil
	}
	return "", false, fmt.Errorf("%s: %w", from, err)
}

// SecretLines calls each with the lines of the file of a flag. It leaves out empty lines and lines that begin with #. A
// file without another line is an error, with what each line should be.
func SecretLines(flag, path, what string, each func(n int, line string) error) error {
	b, err := ReadSmall(path, MaxSecrets)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	none := true
	for i, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		none = false
		if err := each(i+1, line); err != nil {
			return fmt.Errorf("%s %s, line %d: %w", flag, path, i+1, err)
		}
	}
	if none {
		return fmt.Errorf("%s %s: it has no %s: write one per line", flag, path, what)
	}
	return nil
}
