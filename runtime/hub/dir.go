package hub

import (
	"fmt"
	"os"
	"path/filepath"
)

// DefaultDir returns where files go when no folder is named: what PILOTFISH_MODELS says, else pilotfish/models in the
// user's cache folder. env is os.Getenv or a stand-in.
func DefaultDir(env func(key string) string) (string, error) {
	if dir := env("PILOTFISH_MODELS"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for models: %w; name one with PILOTFISH_MODELS", err)
	}
	return filepath.Join(cache, "pilotfish", "models"), nil
}
