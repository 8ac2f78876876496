//go:build !encoder2

package flavoso

const encoder2 = false
