package main

import "github.com/flavoso/flavoso-go/outbox"

// mutant is a client that is wrong in one way. The explorer must find each; one that finds nothing proves
// nothing.
type mutant string

const (
	right             mutant = ""
	mutMarkLate       mutant = "marks after sending"
	mutAnyMark        mutant = "removes the mark of another claim"
	mut5xxUnsent      mutant = "takes 5xx for proof that nothing was done"
	mutBreakUnsent    mutant = "takes a broken connection for proof that nothing was sent"
	mutNoLook         mutant = "repeats without looking"
	mutNoWindow       mutant = "uses a key for ever"
	mutNoMargin       mutant = "leaves no margin before Flavoso forgets"
	mutPortalRefuses  mutant = "takes a portal's page for Flavoso's refusal"
	mutPortalSucceeds mutant = "takes a portal's page for a success"
	mutKeyPerAttempt  mutant = "makes a new key per attempt"
	mutTakeoverUnsent mutant = "takes over without counting as sent"
	mutNotSuspect     mutant = "trusts a restored copy"
	mutConflictFinal  mutant = "takes a conflict after an unknown attempt for a refusal"
	mutRefusalFinal   mutant = "takes a refusal for the last word on what went before it"
	mutReplayFinal    mutant = "takes a replayed refusal for the last word on the first attempt"
	mutLapsedFinal    mutant = "takes what is over for what never came true"
	mutWaitFromFirst  mutant = "waits from the first surprise only"
	mutCreditsOthers  mutant = "credits others with what it may have done itself"
	mutBarredFinal    mutant = "believes a 403 at once"
	mutDiffersFinal   mutant = "takes another's booking for the last word on its own"
	mutProgressFinal  mutant = "takes in-progress for a refusal"
	mutTimeoutFinal   mutant = "takes silence for a refusal"
	mutNoSecondLook   mutant = "takes the next key at the first surprise"
	mutNoFence        mutant = "saves what a lost claim came to"
	mutSilentResend   mutant = "lets the transport send again by itself"
	mutIgnoreLane     mutant = "goes on behind an uncertain head"
	mutNoHold         mutant = "does not hold the lane behind a keyless write"
	mutCancelSent     mutant = "lets people cancel what may have been sent"
	mut5xxUncertain   mutant = "gives up at the first 5xx"
	mutForgetEvidence mutant = "forgets a success whose body broke off"
	mutNoTakeover     mutant = "never takes over"
	mutNeverTry       mutant = "never repeats after in-progress"
)

// mutants are all of them.
var mutants = []mutant{
	mutMarkLate, mutAnyMark, mut5xxUnsent, mutBreakUnsent, mutNoLook, mutNoWindow, mutNoMargin, mutPortalRefuses,
	mutPortalSucceeds, mutKeyPerAttempt, mutTakeoverUnsent, mutNotSuspect, mutConflictFinal, mutRefusalFinal, mutReplayFinal,
	mutLapsedFinal, mutWaitFromFirst, mutCreditsOthers, mutBarredFinal, mutDiffersFinal, mutProgressFinal,
	mutTimeoutFinal, mutNoSecondLook, mutNoFence, mutSilentResend, mutIgnoreLane, mutNoHold, mutCancelSent,
	mut5xxUncertain, mutForgetEvidence, mutNoTakeover, mutNeverTry,
}

func (m *model) beforeRepeat(f facts, look func() wish) (ruling, bool) {
	if m.wrong == mutNoLook {
		f.canFind = f.canFind && f.repeatSafe
		f.past = f.past && f.repeatSafe
	}
	f.waited = f.waited || m.wrong == mutDiffersFinal
	return f.beforeRepeat(look)
}

func (m *model) judge(f facts, a answer, look func() wish) ruling {
	switch {
	case m.wrong == mut5xxUnsent && a.class == retry, m.wrong == mutBreakUnsent && a.class == broken:
		return queued(ruling{unsent: true, last: true})
	case m.wrong == mutPortalRefuses && a.class == notAuthored, m.wrong == mutProgressFinal && a.class == inProgress,
		m.wrong == mutTimeoutFinal && a.class == broken && !a.neverSent:
		return ruling{to: number(outbox.Rejected), result: true}
	case m.wrong == mutPortalSucceeds && a.class == notAuthored:
		return succeeded(ruling{})
	case m.wrong == mutConflictFinal && a.class == conflict:
		return f.rejected(a)
	case m.wrong == mut5xxUncertain && a.class == retry:
		return ruling{to: number(outbox.Uncertain), result: true}
	case m.wrong == mutRefusalFinal && a.class == refused:
		return f.rejected(a)
	case m.wrong == mutReplayFinal && a.class == refused && a.replayed:
		return f.rejected(a)
	case m.wrong == mutLapsedFinal:
		seen := look
		look = func() wish {
			if w := seen(); w != wishLapsed {
				return w
			}
			return wishOpen
		}
	case m.wrong == mutCreditsOthers:
		if r := f.judge(a, look); r.because == reasonNumber("read_back") && a.class == keyReused {
			r.byOther = true
			return r
		}
	case m.wrong == mutBarredFinal && a.class == forbidden:
		f.waited = true
	case m.wrong == mutNoSecondLook:
		f.waited, f.waitedTaken = true, true
	}
	return f.judge(a, look)
}
