package attach

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/handover"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/patcher/target/remote"
)

// Companion plans for programs what they load later, as long as it stays beside them: there is no
// planner in who was attached to (libdynprof/resident/attach/companion.c). One serves all
// programs that are counted with the same options.
type Companion struct {
	name    string // of an abstract socket, which begins with a zero byte
	fd      int
	options patcher.Options
	busy    sync.WaitGroup
	// Fail is told why objects are not planned; nil: nobody is.
	Fail func(error)
}

// Accompany makes one. Who is attached to with it in the request finds it.
func Accompany(o patcher.Options) (*Companion, error) {
	random := make([]byte, 16) // nobody else shall have that name
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	c := &Companion{name: "\x00dynprof-" + hex.EncodeToString(random), options: o}
	var err error
	if c.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err = unix.Bind(c.fd, &unix.SockaddrUnix{Name: "@" + c.name[1:]}); err == nil {
		err = unix.Listen(c.fd, unix.SOMAXCONN)
	}
	if err != nil {
		unix.Close(c.fd)
		return nil, os.NewSyscallError("listen", err)
	}
	go c.listen()
	return c, nil
}

func (c *Companion) listen() {
	for {
		fd, _, err := unix.Accept4(c.fd, unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			c.busy.Go(func() {
				defer unix.Close(fd)
				if err := c.serve(fd); err != nil && c.Fail != nil {
					c.Fail(err)
				}
			})
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EBADF): // it was ended
			return
		default:
			time.Sleep(time.Millisecond) // no descriptor is free
		}
	}
}

// End ends it, when those are served that wait. Who asks from then on is told at once that nobody
// is there.
func (c *Companion) End() {
	if c == nil {
		return
	}
	unix.Shutdown(c.fd, unix.SHUT_RDWR)
	c.busy.Wait()
	unix.Close(c.fd)
}

// asked is a process of which a thread waits for a plan.
type asked struct {
	fd      int
	process *remote.Process
	asks    handover.Asks
	ctl     handover.Ctl
}

func (c *Companion) serve(fd int) error {
	a := &asked{fd: fd}
	pid, err := a.hear()
	if err != nil {
		return fmt.Errorf("a process asks for a plan: %w", err)
	}
	if a.process, err = remote.Open(pid); err == nil {
		defer a.process.Close()
		a.process.Apart = isContained(pid)
		err = a.plan(c.options)
	}
	if err != nil {
		return fmt.Errorf("what process %d loads is not planned: %w", pid, err)
	}
	return nil
}

// hear reads what is asked for.
func (a *asked) hear() (pid int, err error) {
	cred, err := unix.GetsockoptUcred(a.fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	b := make([]byte, handover.AsksSize)
	patience := unix.Timeval{Sec: 5}
	if err := unix.SetsockoptTimeval(a.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return 0, err
	}
	n, err := unix.Read(a.fd, b)
	for err == unix.EINTR { // Go's run time sends signals to its threads
		n, err = unix.Read(a.fd, b)
	}
	if err != nil || n != len(b) {
		return 0, errors.Join(err, errors.New("it does not say what it wants"))
	}
	return int(cred.Pid), handover.Read(b, &a.asks)
}

func (a *asked) answer(what byte) error {
	return os.NewSyscallError("sendto", unix.Sendto(a.fd, []byte{what}, unix.MSG_NOSIGNAL, nil))
}

// at is what the process has at an address of the block.
func (a *asked) at(at, size uint64) ([]byte, error) {
	if at < a.asks.Ctl || at > a.asks.Ctl+a.asks.CtlSize || size > a.asks.Ctl+a.asks.CtlSize-at {
		return nil, errors.New("the block that it shows is not sound")
	}
	b := make([]byte, size)
	_, err := a.process.Memory.ReadAt(b, int64(at))
	return b, err
}

func (a *asked) put(at uint64, b []byte) error {
	if at < a.asks.Ctl || at+uint64(len(b)) > a.asks.Ctl+a.asks.CtlSize {
		return errors.New("BUG: what is written is not in the block")
	}
	_, err := a.process.Memory.WriteAt(b, int64(at))
	return err
}

// look reads the block. Who has executed another program meanwhile does not have it.
func (a *asked) look() error {
	const most = 256 << 20
	if a.asks.CtlSize > most {
		return errors.New("the block that it shows is too large")
	}
	b, err := a.at(a.asks.Ctl, handover.CtlSize)
	if err == nil {
		err = handover.Read(b, &a.ctl)
	}
	if err == nil && (a.ctl.Nonce != a.asks.Nonce || a.ctl.Late == 0) {
		err = errors.New("the block that it shows is none")
	}
	return err
}

// table opens the table that it counts into. Nobody else adds to it until it is closed.
func (a *asked) table() (*os.File, error) {
	path := find.MappedBy(a.process.Pid)
	if path == "" {
		return nil, errors.New("its count table is not found")
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		f.Close()
		return nil, err
	}
	var nonce [16]byte
	if _, err = f.ReadAt(nonce[:], layout.HdrNonce); err == nil && nonce != a.asks.Nonce {
		err = fmt.Errorf("%s is another's", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return os.NewSyscallError("flock", err)
		}
	}
}

// objects are those that are to be planned.
func (a *asked) objects() (list []handover.Object, all []target.Loaded, err error) {
	b, err := a.at(a.ctl.Objects, uint64(a.ctl.ObjectsCount)*handover.ObjectSize)
	if err != nil {
		return nil, nil, err
	}
	list = make([]handover.Object, a.ctl.ObjectsCount)
	if err := handover.Read(b, list); err != nil {
		return nil, nil, err
	}
	end := a.asks.Ctl + a.asks.CtlSize
	for _, o := range list {
		name, err := a.at(o.Name, min(end-min(end, o.Name), 4096))
		if err != nil {
			return nil, nil, err
		}
		name, _, _ = bytes.Cut(name, []byte{0})
		all = append(all, target.Loaded{Name: string(name), Bias: o.Bias, Span: place.Span{Low: o.Low, High: o.High}})
	}
	return list, all, nil
}

// fitting are options as the table needs them: what is paused by switches has some everywhere, or
// nowhere. Where it has no blocks, it has no room for any.
func fitting(options patcher.Options, table *os.File) (patcher.Options, error) {
	flags := make([]byte, 4)
	if _, err := table.ReadAt(flags, layout.HdrFlags); err != nil {
		return options, err
	}
	options.On[setting.Control] = binary.LittleEndian.Uint32(flags)&layout.FlagSwitched != 0
	return options, nil
}

func (a *asked) plan(options patcher.Options) error {
	if err := a.look(); err != nil {
		return err
	}
	table, err := a.table()
	if err != nil {
		return err
	}
	defer table.Close()
	if options, err = fitting(options, table); err != nil {
		return err
	}
	list, objects, err := a.objects()
	if err != nil {
		return err
	}
	ctl, stops := &a.ctl, false
	const most = 64 << 30
	if ctl.ReserveSize > most {
		return errors.New("the block that it shows is not sound")
	}
	a.process.ReserveSize = ctl.ReserveSize
	var later *build.Appender
	request := &patcher.Request{
		Options:     options,
		Objects:     objects,
		Entries:     patcher.Entries{Cold: ctl.ColdEntry, Keep: ctl.KeepEntry, Site: ctl.SiteEntry, Signal: ctl.SignalEntry, Changed: ctl.ChangedEntry, Record: ctl.RecordEntry, Transfer: ctl.TransferEntry},
		ReserveSize: ctl.ReserveSize,
		Traps:       ctl.HandlesTraps != 0,
		Shared:      ctl.Shared != 0,
		Late:        true,
		Held:        place.Span{Low: ctl.Held, High: ctl.Held + ctl.HeldSize},
		Table: func() (t *build.Appender, err error) {
			later, err = build.OpenAppend(table)
			return later, err
		},
		Miss: func(i int, why ledger.Reason) { list[i].Missed = uint64(why) },
		Stop: func() { stops = true },
	}
	plan, err := patcher.New(request, a.process)
	if unread := a.process.Checked(); err == nil {
		err = unread
	}
	if stops { // whatever becomes of the plan
		err = errors.Join(err, a.put(a.asks.Ctl+handover.StopAt, []byte{1, 0, 0, 0}))
	}
	if err != nil {
		return err
	}
	if err := a.answer(handover.Begun); err != nil {
		return err
	}
	if plan.CountsCalls() { // the table says which calls are led
		plan.Patch()
	}
	if err := later.Add(plan.Ledger()); err != nil {
		return err
	}
	if !plan.CountsCalls() {
		plan.Patch()
	}
	if err := a.deliver(plan, list); err != nil {
		return err
	}
	return a.answer(handover.Planned)
}

// deliver writes the plan to where the process reads it.
func (a *asked) deliver(plan *patcher.Plan, list []handover.Object) error {
	arenas, texts, used := listed(plan)
	if len(arenas) > int(a.ctl.ArenasCap) || len(texts) > int(a.ctl.TextsCap) {
		return fmt.Errorf("its text lies in %d pieces, more than can be listed", len(texts))
	}
	stubs, err := a.process.Reserve()
	if err != nil {
		return err
	}
	if _, err := a.process.Memory.WriteAt(stubs[:used], int64(a.asks.Writable)); err != nil {
		return err
	}
	words := []uint32{1, uint32(len(arenas)), a.ctl.ArenasCap, uint32(len(texts))}
	at, count := plan.Undos()
	for _, w := range []struct {
		at uint64
		b  []byte
	}{
		{a.ctl.Objects, handover.Bytes(list)}, {a.ctl.Arenas, handover.Bytes(arenas)}, {a.ctl.Texts, handover.Bytes(texts)},
		{a.asks.Ctl + handover.UndosAt, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, at), count)},
		{a.asks.Ctl + handover.StatusAt, handover.Bytes(words)},
	} {
		if err := a.put(w.at, w.b); err != nil {
			return err
		}
	}
	return nil
}
