package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStrictest: the strictest place is tried first, each says what it does not limit, and of root's files a program
// reads only what its place allows.
func TestStrictest(t *testing.T) {
	all := places()
	assert.Equal(t, place{apart: true, tied: true}, all[0])
	assert.Equal(t, place{reads: isRoot()}, all[len(all)-1])
	const writing = "writing outside of the program's folder"
	for want, of := range map[string]place{"": all[0], "network": {tied: true}, writing: {apart: true},
		"network, " + writing: {}} {
		assert.Equal(t, want, (&Python{place: of}).Unlimited())
	}
	p := python(t)
	if !isRoot() {
		return // programs run as the same user
	}
	secret := filepath.Join(filepath.Dir(p.folder), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("1"), 0o600))
	for _, p.place = range all {
		if ok, err := p.Run(t.Context(), []string{"f = lambda: 1"}, tests); err == nil && ok {
			got, err := p.Run(t.Context(), []string{"f = lambda: int(open('" + secret + "').read())"}, tests)
			require.NoError(t, err)
			assert.Equal(t, p.place.reads, got, "%+v", p.place)
		}
	}
}

// TestEndsWithUs: in every place a program ends with this one, and signals to its group do not reach this one.
func TestEndsWithUs(t *testing.T) {
	for _, p := range places() {
		p.tied = false // which is for good
		require.NoError(t, p.start(t.TempDir(), func(c *exec.Cmd) error {
			assert.Equal(t, syscall.SIGKILL, c.SysProcAttr.Pdeathsig)
			assert.True(t, c.SysProcAttr.Setsid)
			assert.Equal(t, isRoot(), c.SysProcAttr.Credential != nil, "root's programs are another user's")
			return nil
		}))
	}
}
