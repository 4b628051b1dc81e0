package translate

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"io"
	"sort"
)

// Lines maps each instruction of a library to its line of the source. Libraries of the variant [Check] have such a
// table.
type Lines struct{ entries []dwarf.LineEntry } // by address

// ReadLines reads the table of the library at a path that [Compiler.Build] has returned. It fails if the file has none.
func ReadLines(path string) (*Lines, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	t := &Lines{}
	for r := data.Reader(); ; r.SkipChildren() {
		entry, err := r.Next()
		if err != nil {
			return nil, err
		}
		if entry == nil {
			break
		}
		lines, err := data.LineReader(entry)
		if err != nil {
			return nil, err
		}
		for lines != nil {
			var e dwarf.LineEntry
			if err := lines.Next(&e); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			t.entries = append(t.entries, e)
		}
	}
	sort.SliceStable(t.entries, func(i, j int) bool { return t.entries[i].Address < t.entries[j].Address })
	return t, nil
}

// Find returns the file and line, according to #line directives, of the instruction at pc, an offset in the library. It
// returns "unknown place" and line 0 if the table has no entry.
func (t *Lines) Find(pc uint64) (file string, line int) {
	e := t.entries
	i := sort.Search(len(e), func(i int) bool { return e[i].Address > pc })
	if i == 0 || e[i-1].EndSequence || e[i-1].File == nil {
		return "unknown place", 0
	}
	for i--; e[i].Line == 0 && i > 0; i-- { // code that belongs to no line follows the line it was moved from
	}
	return e[i].File.Name, e[i].Line
}
