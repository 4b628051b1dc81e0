// Package link emulates a network link: a relay for UDP datagrams in user space, on loopback only, that stands between a
// client and a server and treats their packets as a bad radio link would. A QUIC connection through it sees delay,
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
// A recorded round trip is that of a request and its echo. It is laid on the reply alone: two halves, read from the trace
// at two moments, would make an outage of 4 s one of 3. What the trace marks as lost vanishes in both directions.
//
// # Repeatable
//
// What chance decides of packet n of a direction (lost, how much jitter, held back, doubled) is a function of the seed,
// the direction and n, whatever the other options are. Its departure is a function of that, its size, its time of arrival
// and the packets before it that it queues behind. Nothing reads a clock or a shared source of random numbers: the same
// arrivals have the same departures. The sockets around that function are as exact as the machine's timers are: a packet
// is never early, and [Counts] says how late packets were.
package link
