package soft

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"io"
	"sort"
)

// lineTable tells which line of the source an instruction comes from.
type lineTable struct{ entries []dwarf.LineEntry } // by address

// place returns the line of the instruction at pc, an offset in the module.
func (m *module) place(pc uint64) (string, int) {
	if m.lines == nil {
		m.lines = &lineTable{}
		if t, err := readLines(m.path); err == nil { // without lines, faults have no place but are faults
			m.lines = t
		}
	}
	e := m.lines.entries
	i := sort.Search(len(e), func(i int) bool { return e[i].Address > pc })
	if i == 0 || e[i-1].EndSequence || e[i-1].File == nil {
		return "unknown place", 0
	}
	for i--; e[i].Line == 0 && i > 0; i-- { // code that belongs to no line follows the line it was moved from
	}
	return e[i].File.Name, e[i].Line
}

func readLines(path string) (*lineTable, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	t := &lineTable{}
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
