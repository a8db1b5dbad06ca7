// SPDX-License-Identifier: BSD-2-Clause

// gohandle N: main.handle spins, waits for another goroutine, and spins again, N times. The other
// one runs on the same thread meanwhile and is never inside. Says how many times, and how long.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

var sink uint64

//go:noinline
func burnOther(d time.Duration) {
	for t := time.Now(); time.Since(t) < d; {
		for i := 0; i < 1000; i++ {
			sink += uint64(i)
		}
	}
}

//go:noinline
func spinInside() {
	for i := 0; i < 2000000; i++ {
		sink ^= uint64(i)
	}
}

//go:noinline
func handle(c chan int) {
	spinInside()
	<-c
	spinInside()
}

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	runtime.GOMAXPROCS(1)
	c := make(chan int)
	go func() {
		for {
			burnOther(20 * time.Millisecond)
			c <- 1
		}
	}()
	for i := 0; i < n; i++ {
		handle(c)
	}
	fmt.Println("handled", n)
}
