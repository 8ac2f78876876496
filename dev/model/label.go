package main

import (
	"fmt"
	"strings"
)

// do is what happens in a step.
type do uint8

const (
	doAccept do = iota
	doClaim
	doTakeOver
	doPrepare
	doLook
	doGiveBack
	doExpireClaimed
	doWithhold
	doSend
	doRefuse
	doLose
	doPortal
	doPortalLong
	doEarly
	doEarly401
	doEarly403
	doBreak
	doJudge
	doSettle
	doTooLate
	doCrash
	doCancel
	doExpire
	doSendAgain
	doMove
	doLapse
	doCopy
	doRestore
	doBegin
	doReplyReused
	doReplyRunning
	doReplay
	doExecute
	doAfter5xx
	doAbortAfter
	doRefuseConflict
	doRefuseInvalid
	doBefore5xx
	doAbortBefore
	doTick
)

// label names a step: of which worker (of requests: plus one, 0 = its connection is gone) and operation.
type label struct {
	do   do
	w, o uint8
	x    uint8 // more about it: what was found, whether the answer is heard, …
	odd  bool  // it needs a fault
}

// benign reports whether the step needs no fault, no crash and nobody's interference.
func (l label) benign() bool {
	if l.odd {
		return false
	}
	switch l.do {
	case doAccept, doClaim, doTakeOver, doSend, doSettle, doTooLate, doBegin, doTick, doWithhold, doPrepare, doBreak:
		return true
	case doLook, doJudge:
		return wish(l.x) != wishUnreadable
	case doReplay, doReplyRunning, doReplyReused, doExecute, doRefuseConflict, doRefuseInvalid:
		return l.x == heard
	}
	return false
}

var told = map[do]string{
	doAccept: "till %[2]d saves operation %[1]s", doClaim: "%[3]s claims %[1]s and marks it", doTakeOver: "%[3]s takes %[1]s over: the lease is over",
	doPrepare: "%[3]s goes on with the repeat of %[1]s", doLook: "%[3]s looks whether %[1]s was done: %[4]s",
	doGiveBack: "%[3]s gives the claim of %[1]s back unsent", doExpireClaimed: "%[3]s finds that the time of %[1]s is over",
	doWithhold: "%[3]s withholds %[1]s: the claim is too old", doSend: "%[3]s sends %[1]s", doRefuse: "%[3]s gets no connection for %[1]s",
	doLose: "%[3]s sends %[1]s, which is lost on its way", doPortal: "%[3]s sends %[1]s, and a portal answers",
	doPortalLong: "%[3]s sends %[1]s, and a portal answers for half an hour", doEarly: "%[3]s sends %[1]s: 429",
	doEarly401: "%[3]s sends %[1]s: 401", doEarly403: "%[3]s sends %[1]s: 403",
	doBreak: "%[3]s loses its connection, or patience, with %[1]s", doJudge: "%[3]s reads about %[1]s to judge the answer: %[4]s",
	doSettle: "%[3]s saves that %[1]s is %[5]s", doTooLate: "%[3]s comes too late: %[1]s is no longer its own",
	doCrash: "%[3]s dies and is started again", doCancel: "somebody withdraws %[1]s", doExpire: "the time of %[1]s is over",
	doSendAgain: "an operator has %[1]s sent again", doMove: "somebody else moves the resource of %[1]s to %[6]s",
	doLapse: "what %[1]s asks for is over",
	doCopy:  "the outbox of till 0 is copied", doRestore: "the copy takes the place of the outbox of till 0",
	doBegin: "Flavoso begins to execute %[1]s%[7]s", doReplyReused: "Flavoso answers %[1]s%[7]s: 422 idempotency_key_reused%[8]s",
	doReplyRunning: "Flavoso answers %[1]s%[7]s: 409 idempotency_in_progress%[8]s", doReplay: "Flavoso replays its answer to %[1]s%[7]s%[8]s",
	doExecute: "Flavoso has done %[1]s%[7]s: success%[8]s", doAfter5xx: "Flavoso has done %[1]s%[7]s, and answers 5xx%[8]s",
	doAbortAfter: "Flavoso has done %[1]s%[7]s, and dies", doRefuseConflict: "Flavoso refuses %[1]s%[7]s: 409 conflict%[8]s",
	doRefuseInvalid: "Flavoso refuses %[1]s%[7]s: 422 validation_failed%[8]s", doBefore5xx: "Flavoso does not do %[1]s%[7]s: 5xx%[8]s",
	doAbortBefore: "Flavoso dies before it does %[1]s%[7]s", doTick: "time passes",
}

func (l label) tell(sc *scenario) string {
	o := &sc.ops[l.o]
	worker, wishName, state := "worker "+string('A'+rune(l.w)), "", ""
	if l.do == doLook || l.do == doJudge {
		wishName = wishNames[l.x]
	}
	if l.do == doSettle {
		if state = string(outboxState(l.x).state()); outboxState(l.x).state().Waiting() {
			state = "still waiting"
		}
	}
	late, arrives := "", ""
	if l.do >= doBegin && l.w == 0 {
		late = " (nobody waits for it any more)"
	} else {
		arrives = [...]string{"", "; the answer is lost", "; the answer breaks off"}[l.x%3]
	}
	status := [...]string{open: "open", done: "done", gone: "gone"}[l.x%3]
	text := fmt.Sprintf(told[l.do], fmt.Sprintf("%s %d", kindNames[o.kind], l.o), o.till, worker, wishName, state, status, late, arrives)
	text, _, _ = strings.Cut(text, "%!(EXTRA")
	return text
}
