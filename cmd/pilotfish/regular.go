package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// openRegular opens a file for reading. Folders, pipes and devices are refused, without waiting for whoever may write
// into them. The file is opened first and looked at then: another one cannot take its place in between.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s, not a regular file", path, kindOf(info.Mode()))
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// readRegular reads a file of at most so many bytes, as [openRegular] opens it.
func readRegular(path string, most int64) ([]byte, error) {
	f, _, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, path, most)
}

// readAtMost reads what is left of a file, and refuses more than so many bytes.
func readAtMost(f *os.File, path string, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes: is it the right file?", path, most)
	}
	return b, nil
}

// kindOf names what is no regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// readConfigBytes reads a file that is not longer than a configuration is. What the shell or the system has opened for
// the program, such as /dev/stdin and <(…), may be a pipe: somebody writes there.
func readConfigBytes(name string) ([]byte, error) {
	const longest = 1 << 20
	if !strings.HasPrefix(name, "/dev/") {
		return readRegular(name, longest)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, name, longest)
}
