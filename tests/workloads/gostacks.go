// SPDX-License-Identifier: BSD-2-Clause

// gostacks SECONDS: goroutines of which each has functions of its own, so that a stack with those of
// two is wrong. main.main descends through main.deep and walks its own stack, which Go does on the
// system stack; main.alpha allocates (the same), main.beta makes its stack grow and shrink,
// main.gamma has leaves without a frame. All run on one thread after the other.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

var sink []byte
var word uint64

//go:noinline
func deep(n int, pcs []uintptr) int {
	if n == 0 {
		return runtime.Callers(0, pcs)
	}
	return deep(n-1, pcs) + 1
}

//go:noinline
func alphaAlloc(n int) {
	for i := 0; i < n; i++ {
		sink = make([]byte, 4096)
	}
}

func alpha(end time.Time, done *sync.WaitGroup) {
	for time.Now().Before(end) {
		alphaAlloc(300)
		runtime.Gosched()
	}
	done.Done()
}

//go:noinline
func betaGrow(n int) uint64 {
	var room [512]byte

	room[n%512] = byte(n)
	if n > 0 {
		return betaGrow(n-1) + uint64(room[(n+1)%512])
	}
	return uint64(room[0])
}

// A goroutine of its own each time: its stack is small at first.
func beta(turns chan bool) {
	word += betaGrow(60)
	turns <- true
}

//go:noinline
func gammaLeaf(v uint64) uint64 { return v*3 + 1 }

//go:noinline
func gammaSpin(n int) {
	for i := 0; i < n; i++ {
		word = gammaLeaf(word)
	}
}

func gamma(end time.Time, done *sync.WaitGroup) {
	for time.Now().Before(end) {
		gammaSpin(300000)
		runtime.Gosched()
	}
	done.Done()
}

func main() {
	var done sync.WaitGroup
	pcs := make([]uintptr, 64)
	turns := make(chan bool)
	n := 0

	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		panic(err)
	}
	runtime.GOMAXPROCS(1)
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	done.Add(2)
	go alpha(end, &done)
	go gamma(end, &done)
	for time.Now().Before(end) {
		for i := 0; i < 30; i++ {
			n += deep(10, pcs)
		}
		go beta(turns)
		<-turns
	}
	done.Wait()
	fmt.Println("walked", n)
}
