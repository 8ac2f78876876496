package bolt

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// networkTypes are file systems whose locks may not reach the other machines that have them mounted.
var networkTypes = map[uint32]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9P", 0x5346414f: "AFS",
	0x00c36400: "Ceph", 0x0bd00bd0: "Lustre", 0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x73757245: "Coda", 0x564c: "NCP",
}

func fileSystemType(path string) (uint32, error) {
	var s unix.Statfs_t
	err := unix.Statfs(filepath.Dir(path), &s)
	return uint32(s.Type), err
}
