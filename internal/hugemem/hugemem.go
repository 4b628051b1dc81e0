// Package hugemem gives memory in huge pages, where the system has them: one entry of the processor's address tables
// then covers 2 MiB in place of 4 KiB, so that reading much memory in order stops less often for addresses to be
// looked up.
package hugemem

import "errors"

// ErrNone says that there are no huge pages to be had: the system has none, or they are switched off.
var ErrNone = errors.New("the system gives no huge pages")

// maxSize is the largest huge page that is of use: with pages of 64 KiB ARM has huge ones of 512 MiB, of which a model
// would fill one and a half.
const maxSize = 32 << 20
