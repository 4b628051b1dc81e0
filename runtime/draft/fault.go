package draft

// fault is a set of mistakes that tests plant, to show that the tests would see them. It is empty outside tests.
type fault uint32

const (
	faultSkipCancel      fault = 1 << iota // leave the questions of a dropped branch open
	faultSkipDrop                          // leave the slots of a dropped branch in use
	faultWrongParent                       // after settling, take the first node of a branch for settled too
	faultStaleAnswer                       // take the answer to a dropped question for one to the oldest open question
	faultSettleEarly                       // show what follows an open escalation
	faultIgnoreEnd                         // draft on after an end token below an open escalation
	faultIgnoreMax                         // draft on after the last token allowed
	faultWindow                            // one token too far past the oldest open escalation
	faultInFlight                          // one open escalation too many
	faultRows                              // one leaf too many in a forward call
	faultFirstBranch                       // keep the best branch, whatever the answer
	faultKeepBelowMiss                     // keep what was drafted below a wrong token
	faultSharedState                       // the router's state is that of the last decision on any branch
	faultLocalOrigin                       // an answer equal to the local token is not marked as the cloud's
	faultForgetHeld                        // an escalation that has to wait for room is not asked: the local token stands
	faultGuessWrong                        // a guess is kept where another token follows
	faultGuessHead                         // what follows a guess is taken from the row before
	faultGuessState                        // the router's state is not carried along a chain of guesses
	faultGuessDrop                         // leave the slots of guesses that do not hold in use
	faultGuessEscalation                   // a guess equal to the local token stands where the cloud is to be asked
	faultGuessWindow                       // guess beyond the window
	faultGuessRoom                         // guess more than the memory has room for
	faultGuessRows                         // guess for one row too many
	faultGuessMax                          // guess the last token allowed
	faultGuessEnd                          // guess an end token, and what follows
	faultGuessCount                        // count every guess as one that held
	faultUnmasked                          // take an answer that may not stand there
	faultParentPlace                       // choose behind a guess as behind the token before it
	faultKnownPlace                        // take what another answer told, whether it may stand there or not
	faultTurnPlace                         // turn a token into one that may not stand there
	faultEager                             // no fault: guess whatever there is a row for, likely or not
	faultTwice                             // no fault: deliver each answer twice, as a network may
)

func (f fault) has(one fault) bool { return f&one != 0 }
