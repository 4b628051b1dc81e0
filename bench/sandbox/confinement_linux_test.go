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

// TestStrictest: the strictest confinement is tried first, each says what it does not limit, and of root's files a
// program reads only what its confinement allows.
func TestStrictest(t *testing.T) {
	all := possibleConfinements()
	assert.Equal(t, confinement{namespaces: true, landlock: true}, all[0])
	assert.Equal(t, confinement{readsAll: isRoot()}, all[len(all)-1])
	const writing = "writing outside of the program's folder"
	for want, of := range map[string]confinement{"": all[0], "network": {landlock: true}, writing: {namespaces: true},
		"network, " + writing: {}} {
		assert.Equal(t, want, (&Python{confinement: of}).Unlimited())
	}
	p := python(t)
	if !isRoot() {
		return // programs run as the same user
	}
	secret := filepath.Join(filepath.Dir(p.folder), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("1"), 0o600))
	for _, p.confinement = range all {
		if ok, err := p.Run(t.Context(), []string{"f = lambda: 1"}, tests); err == nil && ok {
			got, err := p.Run(t.Context(), []string{"f = lambda: int(open('" + secret + "').read())"}, tests)
			require.NoError(t, err)
			assert.Equal(t, p.confinement.readsAll, got, "%+v", p.confinement)
		}
	}
}

// TestEndsWithUs: in every confinement a program ends with this one, and signals to its group do not reach this one.
func TestEndsWithUs(t *testing.T) {
	for _, p := range possibleConfinements() {
		p.landlock = false // which is for good
		require.NoError(t, p.startConfined(t.TempDir(), func(c *exec.Cmd) error {
			assert.Equal(t, syscall.SIGKILL, c.SysProcAttr.Pdeathsig)
			assert.True(t, c.SysProcAttr.Setsid)
			assert.Equal(t, isRoot(), c.SysProcAttr.Credential != nil, "root's programs are another user's")
			return nil
		}))
	}
}
