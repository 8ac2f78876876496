package bolt

// Point is a named moment of the engine's work on its files. Tests set Options.Probe to be called at
// each: to kill the process there, or to make the work fail with an error as the system would give it.
type Point string

// The points, in the order in which they come.
const (
	// Creating the file.
	PointCreateWritten Point = "create: written under another name"
	PointCreateRenamed Point = "create: renamed, directory not synced"
	PointMarkWritten   Point = "mark: written under another name"
	PointMarkRenamed   Point = "mark: renamed"

	// A commit. The middle three are inside bbolt and are reached through bolttest.Disk.
	PointCommitBegin  Point = "commit: before the transaction"
	PointCommitData   Point = "commit: first data page not written"
	PointCommitMeta   Point = "commit: data pages synced, meta page not written"
	PointCommitSync   Point = "commit: meta page written, not synced"
	PointCommitFailed Point = "commit: failed"
	PointCommitDone   Point = "commit: durable, callers not answered"

	// Writing a fresh copy: compaction, and going on after a failed sync or damage.
	PointCopyBegin   Point = "copy: before the first page"
	PointCopyWritten Point = "copy: written, not synced"
	PointCopySynced  Point = "copy: synced, not renamed"
	PointCopyRenamed Point = "copy: renamed, directory not synced"
	PointCopyDone    Point = "copy: durable"
	PointAsideMoved  Point = "salvage: damaged file moved aside"
)

// Points lists every point.
func Points() []Point {
	return []Point{
		PointCreateWritten, PointCreateRenamed, PointMarkWritten, PointMarkRenamed,
		PointCommitBegin, PointCommitData, PointCommitMeta, PointCommitSync, PointCommitFailed, PointCommitDone,
		PointCopyBegin, PointCopyWritten, PointCopySynced, PointCopyRenamed, PointCopyDone, PointAsideMoved,
	}
}

func (e *Engine) at(p Point) error {
	if e.opts.Probe == nil {
		return nil
	}
	return e.opts.Probe(p)
}
