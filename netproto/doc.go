// Package netproto defines the messages between edge and gateway, pilotfish/1, and their encoding. It opens no socket
// and reads no file.
//
// All messages travel in QUIC streams, under TLS 1.3. The client opens two kinds of stream. The first stream of a
// connection is the control stream. Each ask and each sync then has a bidirectional stream of its own, so that nothing
// waits for a lost packet of another one; a cancelled ask is a stream that is reset:
//
//	control stream    edge → Hello, then any number of Bye
//	                  gateway → Welcome, or Refusal; later Refusal (Draining) before it goes away
//	stream of an ask  edge → Ask, end of stream      gateway → Clock if requested, Answer, any number of Ahead,
//	                                                 end of stream
//	                                                 or Need or Refusal, end of stream
//	stream of a sync  edge → Sync, end of stream     gateway → Ack, Need or Refusal, end of stream
//
// A message is a frame, type u8, length uvarint, then a body of that length, and its body is one row of this table:
//
//	1 Hello    version uvarint, tokenizer [32], vocab uvarint, template [32], device [16],
//	           dictionary u32, secret string
//	2 Welcome  version uvarint, model string, context uvarint, dictionary u32, audit u8, choices uvarint,
//	           ahead uvarint, judge string, other template u8
//	3 Refusal  code u8, retry after ms uvarint, detail string
//	4 Ask      session u32, path, k uvarint, audit from uvarint, sampling, deadline ms uvarint,
//	           verify u8 (and 128 where a Clock is wanted), ahead uvarint
//	5 Answer   token uvarint, top (count uvarint, then id uvarint and log-prob each),
//	           audited uvarint, audit (count uvarint, then position gap uvarint, token uvarint, log-prob each),
//	           queue µs uvarint, compute µs uvarint,
//	           score f32 and stands f32 for each entry of audit, unless all are 0
//	6 Need     position uvarint, hash u64
//	7 Sync     session u32, path
//	8 Ack      position uvarint
//	9 Bye      session u32
//	10 Ahead   token uvarint
//	11 Clock   received µs uvarint, from then until sent µs uvarint
//
//	path       base uvarint, base hash u64 unless base is 0, tokens after base uvarint, coding u8,
//	           rest length uvarint, rest
//	sampling   flags u8, then what is flagged: temperature f64, top-k uvarint, top-p f64, seed u64
//	log-prob   uvarint, in units of -1/1024 nat
//	string     length uvarint, bytes
//
// Numbers of fixed width are little endian; a uvarint is the base-128 form of encoding/binary, in its shortest form.
// Each value has exactly one encoding: appending a parsed message gives the same bytes.
//
// An ask sends its context as a difference: the tokens after a base, and the hash of the path up to the base. The base
// is a position on the same path that the gateway acknowledged before (by an Answer or an Ack for a path that goes
// through it), or that was sent on an earlier stream of the same connection. Packets can be overtaken or lost, so a
// gateway that does not know a base first waits for the earlier streams. If it then holds no such path it answers Need,
// and the client asks again from there. So every ask may be repeated, at any time, and clients recover from evictions,
// restarts and a second gateway at the same address. Clients draw session numbers at random, so that the first ask
// needs no setup. A number stands for a session of the device that the Hello names: without the 128 bits of a [Device],
// a client reaches none of its sessions. A Need names a position other than 0 only to a connection that has named that
// session itself.
package netproto

// Version is that of the messages, in Hello and Welcome. Both sides refuse all others, with [WrongVersion].
const Version = 1

// ALPN is the name of the protocol in TLS. It does not change with [Version], so that a refusal can state the cause.
const ALPN = "pilotfish/1"
