package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// disk is a file system of a slot's own.
type disk struct {
	kind    string
	mount   string
	backing string // the file that is its disk; "" = memory
	outer   string // where backing lies: a file system that can take snapshots
	image   string // the file that is outer's disk
}

func run(name string, args ...string) error {
	if text, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, text)
	}
	return nil
}

// newMemoryDisk mounts a small file system in memory.
func newMemoryDisk(mount, size string) (*disk, error) {
	return &disk{kind: "tmpfs", mount: mount}, run("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", mount)
}

// newDisk makes a file system on a loop device. The file behind it lies on another one that can take
// snapshots of files, so that a snapshot shows one moment.
func newDisk(home, mount, kind string) (*disk, error) {
	d := &disk{kind: kind, mount: mount, outer: filepath.Join(home, "outer"), image: filepath.Join(home, "outer.image")}
	d.backing = filepath.Join(d.outer, "disk")
	size := map[string]string{"ext4": "64M", "xfs": "320M"}[kind]
	quiet := map[string]string{"ext4": "-F", "xfs": "-f"}[kind]
	err := os.MkdirAll(d.outer, 0o700)
	for _, step := range [][]string{
		{"truncate", "-s", "2G", d.image},
		{"mkfs.xfs", "-q", "-f", "-m", "reflink=1", d.image},
		{"mount", "-o", "loop", d.image, d.outer},
		{"truncate", "-s", size, d.backing},
		{"mkfs." + kind, "-q", quiet, d.backing},
		{"mount", "-o", "loop", d.backing, mount},
	} {
		if err == nil {
			err = run(step[0], step[1:]...)
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// powerLoss puts the disk back to what had reached it at this moment: what the machine still held in memory
// is gone.
func (d *disk) powerLoss() error {
	snapshot := d.backing + ".snapshot"
	if err := run("cp", "--reflink=always", d.backing, snapshot); err != nil {
		return err
	}
	if err := d.umount(d.mount); err != nil {
		return err
	}
	if err := os.Rename(snapshot, d.backing); err != nil {
		return err
	}
	return run("mount", "-o", "loop", d.backing, d.mount)
}

// umount takes a file system away; what a killed process had open may keep it for a moment.
func (d *disk) umount(path string) error {
	var err error
	for range 200 {
		if err = run("umount", path); err == nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

func (d *disk) close() error {
	var err error
	if d.mount != "" {
		err = d.umount(d.mount)
	}
	if d.image != "" {
		err = errors.Join(err, d.umount(d.outer), os.Remove(d.image))
	}
	return err
}

// tryDisk says why there can be no disks here; "" = they work.
var tryDisk = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "torture-disk-")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	mount := filepath.Join(dir, "mount")
	if err := os.Mkdir(mount, 0o700); err != nil {
		return err.Error()
	}
	d, err := newDisk(dir, mount, "ext4")
	if err == nil {
		err = errors.Join(d.powerLoss(), d.close())
	}
	if err != nil {
		return "file systems on loop devices do not work here: " + err.Error()
	}
	return ""
})

// fillDisk fills the slot's disk for a part of the life, in the mode that does so, and returns what ends it.
func (s *slot) fillDisk() (end func()) {
	if s.style.Mode != Full || s.rnd.IntN(2) == 0 {
		return func() {}
	}
	s.round.note(func(rep *Report) { rep.Full++ })
	path := filepath.Join(s.dir, "somebody-elses.file")
	wait, hold := time.Duration(s.rnd.IntN(40))*time.Millisecond, time.Duration(s.rnd.IntN(60))*time.Millisecond
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(wait)
		f, err := os.Create(path)
		if err != nil {
			return
		}
		block := make([]byte, 64<<10)
		for size := len(block); size >= 512; {
			if _, err := f.Write(block[:size]); err != nil {
				size /= 2
			}
		}
		time.Sleep(hold)
		_ = f.Close()
		_ = os.Remove(path)
	}()
	return func() { <-done }
}
