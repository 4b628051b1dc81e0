// Package hugemem allocates memory in huge pages, if the system has them: one entry of the processor's address tables
// then covers 2 MiB instead of 4 KiB, so that sequential reads of much memory wait less often for address lookups.
package hugemem

import "errors"

// ErrNone means that huge pages are unavailable: the system has none, or they are switched off.
var ErrNone = errors.New("the system gives no huge pages")

// maxSize is the maximum useful size of a huge page: with pages of 64 KiB, ARM has huge ones of 512 MiB, and a model
// would fill one and a half.
const maxSize = 32 << 20
