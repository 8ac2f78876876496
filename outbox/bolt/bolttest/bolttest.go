// Package bolttest makes the disk under a bolt outbox fail, and processes die, at named points. It is for
// tests only.
//
//	disk := bolttest.NewDisk()
//	o := bolt.Options{}
//	disk.Attach(&o)
//	engine, err := bolt.Open(path, o)
//	disk.Fail(bolttest.SyncMeta, 1)
package bolttest

import "github.com/flavoso/flavoso-go/outbox/bolt"

// Op is an operation of a commit that can fail.
type Op int

// The operations of a commit, in their order.
const (
	WriteData Op = iota // writing a data page
	SyncData            // the sync after the data pages
	WriteMeta           // writing the meta page, which makes the commit visible
	SyncMeta            // the sync after the meta page: the commit is visible, but may not be on the disk
)

// Write is one write to an outbox file, as recorded.
type Write struct {
	Path string
	At   int64
	Data []byte
	Meta bool  // the write that makes a commit visible
	Size int64 // of the file when it was made
}

// Points lists the points at which a process can be made to die or work to fail.
func Points() []bolt.Point { return bolt.Points() }
