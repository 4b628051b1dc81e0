package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confinement describes how a program is confined, in addition to the limits of prelude.py.
type confinement struct {
	namespaces bool // separate namespaces: no network, no signals to others, all processes end with the first one
	landlock   bool // Landlock: it may write only in its folder
	readsAll   bool // for root: it may read what root may, since Python may be installed where other users cannot read
}

// possibleConfinements returns the confinements to try, the strictest first.
func possibleConfinements() (all []confinement) {
	for _, p := range []confinement{{namespaces: true, landlock: true}, {namespaces: true}, {landlock: true}, {}} {
		if all = append(all, p); isRoot() {
			p.readsAll = true
			all = append(all, p)
		}
	}
	return all
}

func isRoot() bool { return os.Geteuid() == 0 }

// nobody is the user and group of programs if this program runs as root, since the limit of processes does not apply to
// root.
const nobody = 65534

func (p confinement) missingLimits() (all []string) {
	if !p.namespaces {
		all = append(all, "network")
	}
	if !p.landlock {
		all = append(all, "writing outside of the program's folder")
	}
	return all
}

// runConfined prepares the confinement of a program in a folder, and calls run to start it. It gives up its thread
// afterwards, since the restrictions by Landlock are permanent.
func (p confinement) runConfined(dir string, run func(c *exec.Cmd) error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- p.startConfined(dir, run)
	}()
	return <-done
}

func (p confinement) startConfined(dir string, run func(c *exec.Cmd) error) error {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	user, group := os.Geteuid(), os.Getegid()
	if isRoot() {
		user, group = nobody, nobody
		a.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			return err
		}
	}
	if p.readsAll {
		a.AmbientCaps = []uintptr{unix.CAP_DAC_READ_SEARCH}
	}
	if p.namespaces {
		a.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWNS
	}
	if p.namespaces && !p.readsAll { // the right to read all files would end with the user namespace
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: user, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: group, Size: 1}}
		a.GidMappingsEnableSetgroups = isRoot()
	}
	if p.landlock {
		if err := restrictWrites(dir); err != nil {
			return err
		}
	}
	c := &exec.Cmd{Dir: dir, SysProcAttr: a}
	if p.readsAll { // the right to read applies to the started programs, not to finding the first one
		c.Args = []string{"/bin/sh", "-c", `exec "$@"`, "sh"}
	}
	return run(c)
}

// killProgram kills a program and its child processes in its session.
func killProgram(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL) // not yet waited for, so the process id is still valid
	p.Kill()
}

// The rights that Landlock handles, to change files and to speak TCP, and those in the program's own folder.
const (
	fileChanges = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	writesInFolder = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG
	tcpAccess = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
)

// restrictWrites takes from this thread, and from what it starts, the right to change files outside of a folder.
func restrictWrites(dir string) error {
	version, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if no != 0 {
		return errors.Join(errors.New("no Landlock"), no)
	}
	rules := unix.LandlockRulesetAttr{Handled_access_fs: fileChanges}
	inside := uint64(writesInFolder)
	if version >= 2 {
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
		inside |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		rules.Handled_access_net = tcpAccess
	}
	if version >= 6 {
		rules.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	fd, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)),
		unsafe.Sizeof(rules), 0)
	if no != 0 {
		return no
	}
	defer unix.Close(int(fd))
	write := uint64(unix.LANDLOCK_ACCESS_FS_WRITE_FILE)
	// below /proc lie the identities of a new namespace, which are written as it begins
	for path, rights := range map[string]uint64{dir: inside, os.DevNull: write, "/proc": write} {
		if err := addLandlockRule(int(fd), path, rights); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, no := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); no != 0 {
		return no
	}
	return nil
}

func addLandlockRule(rules int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, no := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if no != 0 {
		return no
	}
	return nil
}
