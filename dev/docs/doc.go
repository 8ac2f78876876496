// Package docs keeps the documentation true: its tests compare the pages with the code, run their commands, and
// look whether every exported name says what it is and every feature is shown.
package docs
