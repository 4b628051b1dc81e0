// Package replay records the inputs of a routed answer, and decodes the answer again from them, without a model, over
// any link: in virtual time, so that hours take seconds and the same recording gives the same bytes.
//
// A recording has everything that decoding requested: of the small model each head, by the tokens before it, and the
// time of each forward pass; of the large model each answer, with its times in the cloud and on the link. A [Player]
// replaces both models for the decoder of package draft, which runs unchanged and makes all its decisions anew.
//
// Missing parts of a recording are replaced, and counted in [Assumed]:
//
//   - A missing head after tokens that were not drafted in the recording is replaced by one for the same position of
//     the same question elsewhere in the recording. Such heads are on branches that are discarded, unless the text
//     differs from the recording: they affect how much is drafted in vain, and not what is shown.
//   - A missing choice of the large model after a text, which is in no answer, no token ahead and no audit, is replaced
//     by the small model's choice.
//   - The time of a missing forward pass is that of another one with as many rows, drawn by its tokens; likewise the
//     time of an answer in the cloud. Drawn times have the mean and the spread of the recorded ones, unlike a median.
//
// # Separate computers
//
// With a pace of the small model, or with a pace of the large model and another link, both have separate computers. The
// small model then evaluates a prompt as fast as in [LocalMode], and the large one reads new tokens as fast as in
// [CloudMode], in the order in which texts arrive, if these modes were recorded. In other modes both may have shared
// the same cores.
//
// # The link
//
// Without another link an ask takes as long as in the recording, or as another recorded one that is drawn by its
// context. With another link, it takes the time in the cloud and the time of both ways. A message is split into packets
// of [packetBytes], and each passes the stages of package link when it is sent. One that is lost, by chance or in an
// outage, is sent again after its sender's probe timeout, by RFC 9002, section 6.2,
//
//	PTO = smoothed_rtt + max(4·rttvar, 1 ms) + 25 ms     doubled after each failure,
//
// with one packet each. QUIC's earlier detection of losses by later packets (section 6.1) is left out, since asks are
// rare. Whether a packet is lost is a function of the seed, the question, its repetition, the context of the ask, the
// direction, the packet and the attempt, so that all modes and links have the same losses.
package replay
