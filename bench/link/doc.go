// Package link emulates a network link: a relay for UDP datagrams in user space, on loopback only, that stands between
// a client and a server and treats their packets as a bad radio link would. A QUIC connection through it sees delay,
// loss, reordering, a narrow rate, outages and a change of its own address, on one machine and without privileges.
//
//	client ──▶ Addr() ═══════════════ up ═══════════════▶ a socket per client ──▶ Target
//	client ◀── Addr() ◀══════════════ down ══════════════ a socket per client ◀── Target
//
// Each direction is the same row of stages, which a packet passes once, in this order:
//
//	arrival ─▶ queue, rate ───────▶ loss ────────────▶ delay ────────────────▶ order ───────────▶ departure
//	           Queue: tail drop     Loss, Burst        Delay + Jitter          first in, first    Duplicate: twice
//	           Rate or Capacity     outage of a trace  + recorded round trip   out, or Reorder
//	                                                     (down only)
//
// A packet that chance loses has used its time on the link, as on the air; one that finds the queue full has not. Rate,
// capacity and queue count a datagram with 28 bytes of IP and UDP headers. All clients of a [Link] share it, as devices
// behind one access point do; devices with an access of their own are several Links.
//
// A recorded round trip is that of a request and its echo. It is laid on the reply alone: two halves, read from the
// trace at two moments, would make an outage of 4 s one of 3. What the trace marks as lost vanishes in both directions.
//
// # Repeatable
//
// What chance decides of packet n of a direction (lost, how much jitter, held back, doubled) is a function of the seed,
// the direction and n, whatever the other options are. Its departure is a function of that, its size, its time of
// arrival and the packets before it that it queues behind. Nothing reads a clock or a shared source of random numbers:
// the same arrivals have the same departures.
//
// # Exact
//
// A packet is never early. How late it was, [Counts] tells: some 0.05 ms on a machine at rest. But where every thread
// of Go (GOMAXPROCS) computes without a pause, the runtime looks at sockets only every 10 ms, and a round trip, which
// is four of them, comes 50 ms late. A program that computes beside its own link sets GOMAXPROCS to two more than the
// threads that compute, and is then late by 2 ms.
package link
