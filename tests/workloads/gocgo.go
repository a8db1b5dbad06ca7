// SPDX-License-Identifier: BSD-2-Clause

// gocgo CALLS: main.viaC calls C code, which spins, and Go code again by a callback.
package main

/*
extern void backInGo(int n);

static volatile unsigned long c_word;

__attribute__((noinline)) static void c_spin(int n)
{
	while (n--)
		c_word += n;
}

__attribute__((noinline)) static void c_outer(int n)
{
	c_spin(n);
	backInGo(n);
	c_spin(n);
	c_word++;
}
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
)

var word uint64

//export backInGo
func backInGo(n C.int) { spinBack(int(n)) }

//go:noinline
func spinBack(n int) {
	for i := 0; i < n; i++ {
		word += uint64(i)
	}
}

//go:noinline
func viaC(n int) {
	C.c_outer(C.int(n))
	word++
}

func main() {
	calls, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	for i := 0; i < calls; i++ {
		viaC(1000000)
	}
	fmt.Println("called", calls)
}
