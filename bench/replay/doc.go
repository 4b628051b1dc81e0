// Package replay records what a routed answer was made of, and decodes it again from that, without a model, over any
// link: in virtual time, so that hours take seconds and the same recording gives the same bytes.
//
// A recording holds what decoding asked for: of the small model each head, by the tokens before it, and the time of
// each forward call; of the large model each answer, with the time that it took there and on the way. A [Player] is
// both models for the decoder of package draft, which runs as it is: everything that it decides, it decides anew.
//
// What a recording does not have is made up, and counted in [Assumed]:
//
//   - A head behind tokens that nobody drafted when it was recorded is that of the same position of the same question
//     elsewhere in the recording. Such heads lie on branches that are dropped, unless the text goes another way than in
//     the recording: they decide how much is drafted in vain, and not what is shown.
//   - What the large model says behind a text of which no answer tells, neither one that was asked for nor one that
//     came ahead, nor an audit, is what the small model says there.
//   - The time of a forward call is that of the same call, or else that of another one of as many rows, drawn by its
//     tokens; so is the time of an answer in the cloud. Times that are drawn have the mean and the spread of those that
//     were recorded, which a median would not have.
//
// # Computers of their own
//
// With a pace of the small model, and one of the large model and another link, both have computers of their own. The
// small model evaluates a prompt as fast as in [LocalMode], and the large one reads new tokens as fast as in
// [CloudMode], in the order in which texts come, where these modes were recorded. In other modes both may have computed
// on the same cores.
//
// # The way
//
// Without another link an ask takes as long as it did, or as another one did that is drawn by its context. Over
// another link, it takes the time in the cloud and the way there and back. A message is as many packets of
// [packetBytes] as its bytes need, and each passes the stages of package link at the moment when it leaves. One that is
// lost, by chance or in an outage, is sent anew when its sender's probe timeout is over, as RFC 9002 has it in section
// 6.2,
//
//	PTO = smoothed_rtt + max(4·rttvar, 1 ms) + 25 ms     twice as long after each that was in vain,
//
// with one packet each. What QUIC may find out earlier from later packets (section 6.1) is left out: asks are few and
// far between. Whether a packet is lost is a function of the seed, the question, its repetition, the context of the
// ask, the direction, the packet and the attempt. So modes, and links, meet the same chance.
package replay
