// Package link emulates a network link: a relay for UDP datagrams in user space, on loopback only, between a client and
// a server. It treats their packets like a bad radio link. A QUIC connection through it experiences delay, loss, a low
// rate, outages and a change of its own address, on one machine and without privileges.
//
//	client ──▶ Addr() ═══════════════ up ═══════════════▶ a socket per client ──▶ Target
//	client ◀── Addr() ◀══════════════ down ══════════════ a socket per client ◀── Target
//
// Each direction has the same sequence of stages, which a packet passes once, in this order:
//
//	arrival ─▶ queue, capacity ───▶ loss ────────────▶ delay ────────────────▶ departure, in the order of arrival
//	           Queue: tail drop     Loss               Delay
//	           Capacity             outage of a trace  + recorded round trip (down only)
//
// A packet that is lost by chance has used its time on the link, as on the air; one that finds the queue full has not.
// Capacity and queue count a datagram with 28 bytes of IP and UDP headers. All clients of a [Link] share it, like
// devices at one access point; for devices with separate access use several Links.
//
// A recorded round trip is that of a request and its echo. It delays only the reply: two halves, read from the trace at
// two times, would shorten an outage of 4 s to 3 s. Packets that the trace marks as lost are dropped in both
// directions.
//
// # Repeatable
//
// Whether packet n of a direction is lost is a function of the seed, the direction and n, independent of the other
// options. Its departure is a function of that, its size, its time of arrival and the packets before it. Neither a
// clock nor a shared source of random numbers is used: the same arrivals give the same departures.
//
// # Exact
//
// A packet is never early. It is some 0.05 ms late on an idle machine. But if all threads of Go
// (GOMAXPROCS) compute without pause, the runtime checks sockets only every 10 ms, and a round trip, which has four of
// these checks, is 50 ms late. A program that computes while it runs a link should set GOMAXPROCS to two more than the
// computing threads; packets are then 2 ms late.
package link
