package netproto

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Dictionary is a trained zstd dictionary over ids as [Codec] lays them out, for one vocabulary. Its id is its version.
type Dictionary struct {
	ID    uint32 // above 0; an id always means the same contents
	Bytes []byte // in zstd's format, with the same id inside
}

// TrainDictionary makes a dictionary from token paths like those that will be sent. New paths can refer to the last
// half of them; the first half gives the frequencies of the remaining bytes.
func TrainDictionary(id uint32, vocab int, paths [][]int32) (Dictionary, error) {
	const longest = 32 << 10 // bytes to refer to; the last ones have the shortest references
	if id == 0 || vocab < 1 || vocab > MaxVocab {
		return Dictionary{}, fmt.Errorf("train dictionary %d for a vocabulary of %d: %w", id, vocab, ErrValue)
	}
	var history []byte
	for _, p := range paths[len(paths)/2:] {
		history = appendFixedIDs(history, p, idBytes(vocab))
	}
	var contents [][]byte
	for _, p := range paths[:len(paths)/2] {
		contents = append(contents, appendFixedIDs(nil, p, idBytes(vocab)))
	}
	b, err := zstd.BuildDict(zstd.BuildDictOptions{ID: id, Contents: contents,
		History: history[max(0, len(history)-longest):], Offsets: [3]int{1, 4, 8}, Level: zstd.SpeedBetterCompression})
	if err != nil {
		return Dictionary{}, fmt.Errorf("train dictionary: %w", err)
	}
	return Dictionary{ID: id, Bytes: b}, nil
}
