// Package replay records the inputs of a routed answer, and decodes the answer again from them, without a model, over
// any link: in virtual time, so that hours take seconds and the same recording gives the same bytes.
//
// A recording has everything that decoding requested: of the small model each head, by the tokens before it, and the
// time of each forward pass; of the large model each answer, with its times in the cloud and on the link. A [Player]
// replaces both models for the decoder of package draft, which runs unchanged and makes all its decisions anew.
//
// Missing parts of a recording are replaced, and counted in [Assumed]:
//
//   - A missing head is that after another text of the same question. Such heads are on branches that are discarded,
//     unless the text differs from the recording: they affect how much is drafted in vain, and not what is shown.
//   - A missing choice of the large model after a text, which is in no answer, no token ahead and no audit, is replaced
//     by the small model's choice. Tokens ahead end there.
//
// # Time
//
// A forward pass takes the mean time of the recorded ones of the mode with as many rows, and a prompt the mean time of
// the question's in the mode. An ask takes the recorded time of the same text, or else the mean of the mode. The
// program's own work between these takes no time.
//
// With a pace of the small model, or with a pace of the large model and another link, both have separate computers. The
// small model then evaluates a prompt as fast as in [LocalMode], and the large one reads new tokens as fast as in
// [CloudMode], in the order in which texts arrive, if these modes were recorded. In other modes both may have shared
// the same cores.
//
// With another link, an ask takes the time in the cloud and that of both ways. A message is one packet that passes the
// stages of package link. One that is lost, by chance or in an outage, is sent again after a mean round trip and QUIC's
// delay of acknowledgements, twice as long after each failure. Whether it is lost is a function of the seed, the
// question, its repetition, the text, the direction and the attempt, so that all modes and links have the same losses.
package replay
