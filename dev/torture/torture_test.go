package main

import (
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/rig"
)

// TestTillsThatAreKilledLoseAndDoubleNothing is the short form of a torture run: a fixed seed, a few hundred
// processes killed, in the modes that need nothing of the machine and in those that it has the means for.
func TestTillsThatAreKilledLoseAndDoubleNothing(t *testing.T) {
	const seed, kills = 20261130, 500
	rep, err := rig.Run(rig.Options{Seed: seed, Kills: kills, Round: 4 * time.Second, Log: t.Output(),
		Modes: []rig.Mode{rig.Crashes, rig.PowerSeam, rig.Storage, rig.PowerDisk}})
	if err != nil {
		t.Fatal(err)
	}
	for mode, why := range rep.Skipped {
		t.Logf("not on this machine: %s: %s", mode, why)
	}
	for _, v := range rep.Violations {
		t.Errorf("seed %d: %s", seed, v)
	}
	c := rep.Counts
	t.Logf("%d killed (%d at named points, %d power losses), %d restarts of the server; %d operations accepted, %d effects, states %v, excused %v",
		rep.Killed(), sum(rep.Deaths), sum(rep.Images), rep.Restarts, c.Accepted, c.Effects, c.States, rep.Excused)
	// A run in which hardly anything happens would prove nothing.
	if c.Accepted < kills || c.States["succeeded"] < c.Accepted*3/4 || sum(rep.Deaths) < kills/10 || sum(rep.Images) == 0 || rep.Restarts == 0 {
		t.Error("too little has happened")
	}
}
