/**
 * What programs have in common that keep a process while nobody is connected to it, written for the perl that every
 * Debian has (perl-base). Such a program is run once for each connection. It is a bridge between its standard streams
 * and the socket of a holder, a process of its own that it starts when there is none.
 */

/** Bytes of a frame's head: a letter, and the number of bytes that follow. */
export const FRAME_HEAD_BYTES = 5;

/** A frame: its letter, and what it carries. */
export function holderFrame(letter: string, data: Uint8Array | string = ''): Buffer {
  const body = typeof data === 'string' ? Buffer.from(data) : data;
  const out = Buffer.allocUnsafe(FRAME_HEAD_BYTES + body.length);
  out.write(letter, 'latin1');
  out.writeUInt32BE(body.length, 1);
  out.set(body, FRAME_HEAD_BYTES);
  return out;
}

/** Reads a program of as many bytes as the first argument says from standard input, and runs it (`perl -e`). */
export const HOLDER_BOOT =
  'my($n,$s)=(shift,q());while(length($s)<$n){sysread(STDIN,$s,$n-length($s),length($s))or exit 1}eval$s;die$@if$@';

/** How each begins. `$folder` is that of the sockets, `$path` the socket of its holder. */
export const HOLDER_BEGIN = `
use strict; use Socket; use Fcntl qw(:DEFAULT :flock); use POSIX ();
binmode $_ for *STDIN, *STDOUT;
my $mask = umask 077;
$SIG{PIPE} = "IGNORE";
$SIG{CHLD} = "IGNORE";
`;

/** Its subroutines. It has a sub `hold` of its own, which is the holder and says so over what it is given. */
export const HOLDER_SUBS = String.raw`
# One at a time looks for a holder and starts one, in a folder that nobody else owns or enters: until what is returned
# is closed.
sub enter {
  my $folder = shift;
  mkdir $folder, 0700;
  my @is = lstat $folder;
  die "no folder for sockets\n" unless @is && -d _ && $is[4] == $> && !($is[2] & 077);
  sysopen(my $lock, "$folder/lock", O_RDWR | O_CREAT, 0600) or die "no lock: $!\n";
  alarm 10;
  flock($lock, LOCK_EX) or die "no lock: $!\n";
  return $lock;
}

sub dial {
  socket(my $socket, PF_UNIX, SOCK_STREAM, 0) or die;
  return connect($socket, pack_sockaddr_un(shift)) ? $socket : undef;
}

sub quick { my $file = shift; binmode $file; fcntl($file, F_SETFL, fcntl($file, F_GETFL, 0) | O_NONBLOCK); }
sub later { return $! == POSIX::EAGAIN() || $! == POSIX::EINTR() }

# Both ways between the standard streams and the holder, after a greeting. Who has no more to say ends it, once all that
# was said is passed on.
sub bridge {
  my ($holder, $greeting) = @_;
  my @ways = ({ from => *STDIN, to => $holder, data => "" },
    { from => $holder, to => *STDOUT, data => $greeting });
  quick($_) for *STDIN, *STDOUT, $holder;
  while (1) {
    my ($r, $w) = ("", "");
    for (@ways) {
      next if $_->{deaf};
      if (length $_->{data}) { vec($w, fileno $_->{to}, 1) = 1 }
      elsif ($_->{over}) { return }
      vec($r, fileno $_->{from}, 1) = 1 if !$_->{over} && length $_->{data} < 65536;
    }
    next if select($r, $w, undef, undef) < 0;
    for (@ways) {
      next if $_->{deaf};
      if (vec($r, fileno $_->{from}, 1)) {
        my $got = sysread($_->{from}, $_->{data}, 65536, length $_->{data});
        $_->{over} = 1 unless $got || !defined $got && later();
      }
      if (length $_->{data}) {
        my $put = syswrite($_->{to}, $_->{data});
        if ($put) { substr($_->{data}, 0, $put) = "" }
        # A holder that hears no more may have said why.
        elsif (!later()) { return if $_->{to} != $holder; $_->{deaf} = 1 }
      }
    }
  }
}

# Starts the holder, which does not have the lock.
sub start {
  my $lock = shift;
  pipe(my $heard, my $ready) or die;
  my $pid = fork;
  die "no fork: $!\n" unless defined $pid;
  if (!$pid) {
    close $heard;
    close $lock;
    $SIG{HUP} = "IGNORE";
    alarm 0;
    POSIX::setsid();
    eval { hold($ready) };
    POSIX::_exit(1);
  }
  close $ready;
  sysread($heard, my $word, 1) or die "the holder did not start\n";
}

# Of the holder: a clock that is never set, of ticks since the machine was started.
sub ticking {
  my $tick = POSIX::sysconf(POSIX::_SC_CLK_TCK());
  return sub { return (POSIX::times())[0] / $tick };
}

# Its socket, and what can be read once a child has ended.
sub listening {
  socket(my $listener, PF_UNIX, SOCK_STREAM, 0) or die;
  bind($listener, pack_sockaddr_un(shift)) or die;
  listen($listener, 8) or die;
  pipe(my $died, my $dies) or die;
  quick($_) for $listener, $died, $dies;
  $SIG{CHLD} = sub { syswrite $dies, "x" };
  return ($listener, $died);
}

# How many seconds after $time the first of some times is; undef when there is none.
sub left {
  my ($time, @ends) = @_;
  my ($first) = sort { $a <=> $b } grep { defined } @ends;
  return undef unless defined $first;
  return $first > $time ? $first - $time : 0;
}

# Waits for the files in $r and $w and for what clients say and are to hear, and a little longer than $wait. A client:
# its file, what came of it (in), what goes to it (out), and until when if it is sent away (leaving).
sub await {
  my ($r, $w, $wait, @clients) = @_;
  for (@clients) {
    vec($r, fileno $_->{file}, 1) = 1 unless $_->{leaving};
    vec($w, fileno $_->{file}, 1) = 1 if length $_->{out};
  }
  return select($r, $w, undef, defined $wait ? $wait + 0.01 : undef) > 0 ? ($r, $w) : ("", "");
}

# Reads from a client once, and has its frames taken. Whether it said something; who is gone or says too much at once is
# dropped.
sub hear {
  my ($who, $take, $drop) = @_;
  my $got = sysread($who->{file}, $who->{in}, 65536, length $who->{in});
  return 0 if !defined $got && later();
  if (!$got) { $drop->($who); return 0 }
  while (length $who->{in} >= 5) {
    my ($type, $bytes) = unpack "aN", $who->{in};
    if ($bytes > 65536) { $drop->($who); return 0 }
    last if length $who->{in} < 5 + $bytes;
    my $what = substr($who->{in}, 5, $bytes);
    substr($who->{in}, 0, 5 + $bytes) = "";
    $take->($who, $type, $what);
  }
  return 1;
}

# A frame for a client.
sub tells { my ($to, $type, $what) = @_; $to->{out} .= pack("aN", $type, length $what) . $what }

# Writes to a client once. Whether it is still there.
sub flush {
  my $who = shift;
  return 1 unless length $who->{out};
  my $put = syswrite($who->{file}, $who->{out}) or return later();
  substr($who->{out}, 0, $put) = "";
  return 1;
}

# It is there, under this name, and has the streams of whoever started it no more.
sub ready {
  my ($ready, $called) = @_;
  $0 = $called;
  open STDIN, "<", "/dev/null"; open STDOUT, ">", "/dev/null"; open STDERR, ">", "/dev/null";
  syswrite $ready, "1";
  close $ready;
}

# A new terminal with a size, and the name of its line. Numbers of ioctls: asm-generic/ioctls.h.
sub terminal {
  sysopen(my $pty, "/dev/ptmx", O_RDWR | O_NOCTTY) or die;
  my $number = pack "i", 0;
  ioctl($pty, 0x40045431, $number) or die;
  ioctl($pty, 0x80045430, $number) or die;
  resize($pty, @_);
  return ($pty, "/dev/pts/" . unpack "i", $number);
}

sub resize { my ($pty, $cols, $rows) = @_; ioctl($pty, 0x5414, pack "S4", $rows, $cols, 0, 0) }
`;
