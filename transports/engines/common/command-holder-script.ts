/**
 * What runs inside the container to keep a command while nobody is connected: a program for the perl that every Debian
 * has (perl-base), so that nothing has to be installed. It is sent over the input of the command that starts it.
 *
 * Run once for each connection it is a bridge between its standard streams and the socket of the command's holder,
 * which it starts when it may. The holder owns the command and its streams, keeps what was printed last, and knows one
 * client at a time. What they say to each other is in command-holder-frames.ts.
 */

import { HOLDER_BEGIN, HOLDER_BOOT, HOLDER_SUBS } from '../../../lib/holder-script.ts';

/** What a bridge says first, up to a newline: this, and one of the words of `HolderAnswer`. */
export const GREETING = 'troupe-command ';

/** `gone`: there is no such command; `full`: too many are kept in this container. */
export type HolderAnswer = 'held' | 'gone' | 'full';

/** What a bridge is started with. */
interface HolderRequest {
  /** Folder of the sockets: made if it is missing, and must be nobody else's. */
  readonly folder: string;
  /** Of the socket: letters and digits. */
  readonly name: string;
  /** What to run if no holder of that name is there; without it, that is `gone`. */
  readonly start?: {
    /** The program and its arguments. */
    readonly words: readonly string[];
    /** Undefined without a terminal. */
    readonly terminal: { readonly cols: number; readonly rows: number } | undefined;
  };
}

/** The words that run the program, and what goes to their standard input before frames do. */
export function holderStart({ folder, name, start }: HolderRequest): { words: string[]; input: Buffer } {
  const { cols = 0, rows = 0 } = start?.terminal ?? {};
  const request = Buffer.from([start === undefined ? 'join' : 'start', cols, rows, ...(start?.words ?? [])].join('\0'));
  const sizes = [program.length, request.length].map(String);
  const [size = '', requestSize = ''] = sizes;
  return {
    words: ['perl', '-e', HOLDER_BOOT, size, folder, name, requestSize],
    input: Buffer.concat([program, request]),
  };
}

const program = Buffer.from(String.raw`${HOLDER_BEGIN}
my ($folder, $name, $size) = @ARGV;
# Bytes of output that may be unconfirmed, and changes between its streams in them; bytes that the command has not
# read; seconds without a word; seconds and bytes in which what a command left behind is still read; holders.
my ($KEPT, $RUNS, $TYPED, $SILENT, $REST, $LAST, $MOST) = (1048576, 8192, 1048576, 90, 2, 2097152, 16);
my $path = "$folder/$name";
my $request = "";
while (length $request < $size) { sysread(STDIN, $request, $size - length $request, length $request) or exit 1 }
my ($mode, $cols, $rows, @words) = split /\0/, $request, -1;

my $lock = enter($folder);
my $holder = dial($path);
if (!$holder && $mode eq "start") {
  answer("full") unless place();
  start($lock);
  $holder = dial($path) or die "no holder: $!\n";
}
close $lock;
alarm 0;
answer("gone") unless $holder;
bridge($holder, "troupe-command held\n");
exit 0;
${HOLDER_SUBS}
sub answer { syswrite STDOUT, "troupe-command $_[0]\n"; exit 0 }

# Whether one more may be kept. Results that nobody came for make place.
sub place {
  for my $try (1 .. 20) {
    opendir(my $all, $folder) or die;
    my $others = 0;
    for my $file (grep { /^\w+$/ && $_ ne "lock" } readdir $all) {
      # What containers that were killed left behind.
      my $other = dial("$folder/$file");
      if (!$other) { unlink "$folder/$file"; next }
      $others++;
      syswrite $other, pack("aN", "V", 0) if $try > 1;
    }
    return 1 if $others < $MOST;
    select undef, undef, undef, 0.05;
  }
  return 0;
}

# The command: its number, where its input goes, and where its outputs come from, by their numbers.
sub run {
  my ($line, $in, $out, $err, @ends);
  if ($rows) {
    # A terminal of its own.
    ($in, my $tty) = terminal($cols, $rows);
    sysopen($line, $tty, O_RDWR | O_NOCTTY) or die;
    ($out, @ends) = ($in, $line, $line, $line);
  } else {
    pipe($ends[0], $in) or die; pipe($out, $ends[1]) or die; pipe($err, $ends[2]) or die;
  }
  my $pid = fork;
  die unless defined $pid;
  if (!$pid) {
    POSIX::setsid();
    ioctl($line, 0x540E, 0) if $line;
    open STDIN, "<&", $ends[0]; open STDOUT, ">&", $ends[1]; open STDERR, ">&", $ends[2];
    @SIG{qw(HUP PIPE CHLD ALRM TERM INT)} = ("DEFAULT") x 6;
    umask $mask;
    $ENV{TERM} = "xterm-256color" if $line;
    { no warnings; exec { "/bin/sh" } "sh", "-c", 'exec "$@"', "sh", @words }
    POSIX::_exit(127);
  }
  quick($_) for $in, $out, grep { $_ } $err;
  return ($pid, $in, { 1 => $out, $err ? (2 => $err) : () });
}

sub hold {
  my $ready = shift;
  my ($silent, $rest, $last) = ($SILENT, $REST, $LAST);
  my $now = ticking();
  my ($listener, $died) = listening($path);
  my ($pid, $in, $outs) = run();
  chdir "/";
  ready($ready, "troupe-command");

  # What was printed: $data is from $start to $total; each run has the number of its stream, and where it ends. Up to
  # $acked it is with the client, up to $sent on its way; that is in the run at $at.
  my ($data, $start, $total, $acked, $sent, $at, @runs) = ("", 0, 0, 0, 0, 0);
  # Input: what waits for the command, how much came, how much it took, whether there is more.
  my ($typed, $received, $written, $told, $eof) = ("", 0, 0, 0, 0);
  my (@clients, $client);
  # When the client left, and how long the command waits for one; when it ends in any case.
  my ($leftAt, $linger, $end, $heard) = ($now->(), 30, undef, 0);
  # How the command ended, and since when that is known; whether all that it printed is here; a pause for its terminal.
  my ($code, $diedAt, $over, $again);

  my $finish = sub { unlink $path; POSIX::_exit(0) };
  my $hangUp = sub {
    $finish->() if defined $code;
    unlink $path;
    close $_->{file} for @clients;
    kill "HUP", -$pid, $pid;
    for (1 .. 50) {
      POSIX::_exit(0) if waitpid($pid, POSIX::WNOHANG());
      # What it prints to the end is read: what cannot print does not end as it likes.
      for my $out (values %$outs) { for (1 .. 100) { sysread($out, my $lost, 65536) or last } }
      select undef, undef, undef, 0.1;
    }
    kill "KILL", -$pid, $pid;
    POSIX::_exit(0);
  };
  $SIG{TERM} = $SIG{INT} = $hangUp;
  my $drop = sub {
    my $gone = shift;
    @clients = grep { $_ != $gone } @clients;
    close $gone->{file};
    if ($client && $client == $gone) { undef $client; $leftAt = $now->() }
  };
  my $cut = sub {
    my $from = shift;
    return if $from <= $start;
    substr($data, 0, $from - $start) = "";
    $start = $from;
    while (@runs && $runs[0][1] <= $start) { shift @runs; $at-- if $at > 0 }
  };
  my $keep = sub {
    my ($stream, $bytes) = @_;
    $data .= $bytes;
    $total += length $bytes;
    if (@runs && $runs[-1][0] == $stream) { $runs[-1][1] = $total } else { push @runs, [$stream, $total] }
    # The oldest goes, of what was confirmed, and not for every few bytes.
    my $most = $client && $sent < $acked ? $sent : $acked;
    my $from = $total - $start > 2 * $KEPT ? $total - $KEPT : 0;
    $from = $runs[@runs - $RUNS][1] if @runs > 2 * $RUNS && $runs[@runs - $RUNS][1] > $from;
    $cut->($from < $most ? $from : $most);
  };
  my $room = sub {
    return 0 if @runs > 2 * $RUNS;
    return $KEPT - ($total - $acked);
  };
  my $pass = sub {
    return unless $client && $client->{on};
    while ($sent < $total && length $client->{out} < 65536) {
      $at++ while $runs[$at][1] <= $sent;
      my $some = $runs[$at][1] - $sent;
      $some = 32768 if $some > 32768;
      tells($client, "O", chr($runs[$at][0]) . substr($data, $sent - $start, $some));
      $sent += $some;
    }
    if ($over && $sent == $total && !$client->{knows}) { tells($client, "X", $code); $client->{knows} = 1 }
  };
  my $progress = sub { $told = $written; tells($client, "C", "$received $written") if $client };
  my $join = sub {
    my ($who, $since, $wait, $life) = @_;
    if ($client && $client != $who) {
      tells($client, "T", "");
      $client->{leaving} = $now->() + 5;
    }
    ($client, $linger) = ($who, $wait / 1000);
    $end = $life eq "inf" ? undef : $now->() + $life / 1000;
    $since = $total if $since > $total;
    $acked = $since if $acked < $since;
    ($sent, $at) = ($since < $start ? $start : $since, 0);
    $who->{on} = 1;
    tells($who, "B", "$sent $received $written");
  };
  my $take = sub {
    my ($who, $type, $what) = @_;
    $heard = $now->() if $type eq "J";
    return $join->($who, split / /, $what) if $type eq "J" && !$who->{leaving};
    return $over && !$client && $finish->() if $type eq "V";
    return unless $client && $who == $client;
    if ($type eq "A") { $acked = $what if $what > $acked && $what <= $sent }
    elsif ($type eq "I") {
      $received += length $what;
      if ($in && !$eof) { $typed .= $what } else { $written = $received; $progress->() }
    }
    elsif ($type eq "E") {
      if (!$rows) { $eof = 1 } elsif ($in) { $typed .= "\x04"; $written--; }
    }
    elsif ($type eq "S") { resize($in, split / /, $what) if $rows && $in }
    elsif ($type eq "H") { $hangUp->() }
  };
  # Reads an output once. Whether something came.
  my $read = sub {
    my ($stream, $most) = @_;
    my $got = sysread($outs->{$stream}, my $bytes, $most > 32768 ? 32768 : $most);
    if ($got) { $keep->($stream, $bytes); return $got }
    return 0 if !defined $got && later();
    # Nobody has the terminal open; as long as the command runs somebody may do so again.
    if ($rows && !defined $code) { $again = $now->() + 0.2 } else { delete $outs->{$stream} }
    return 0;
  };

  while (1) {
    my $time = $now->();
    my @ends = ($end, $again, $client ? $heard + $silent : $leftAt + $linger, map { $_->{leaving} } @clients);
    push @ends, $diedAt + $rest if defined $code && !$over && $room->() > 0;
    my ($r, $w) = ("", "");
    vec($r, fileno $_, 1) = 1 for $listener, $died;
    my $free = $room->();
    if (!$over && !defined $again && $free > 0) { vec($r, fileno $_, 1) = 1 for values %$outs }
    vec($w, fileno $in, 1) = 1 if $in && length $typed;
    ($r, $w) = await($r, $w, left($time, @ends), @clients);

    if (vec($r, fileno $died, 1)) {
      sysread $died, my $ignored, 100;
      if (!defined $code && waitpid($pid, POSIX::WNOHANG()) > 0) {
        $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
        $diedAt = $now->();
      }
    }
    my $came = 0;
    for my $stream ($free > 0 ? sort keys %$outs : ()) {
      next unless vec($r, fileno $outs->{$stream}, 1) && ($free = $room->()) > 0;
      $came += $read->($stream, $free);
    }
    # What it printed last, but not for ever what others print that it left behind.
    if (defined $code && !$over) {
      $last -= $came;
      $over = !%$outs || $last <= 0 || !$came && $free > 0 && $room->() > 0 && $diedAt + $rest <= $now->();
      if ($over) { close $_ for values %$outs; close $in if $in; undef $in; $typed = ""; $written = $received }
    }
    for my $who (my @all = @clients) {
      next unless vec($r, fileno $who->{file}, 1) && hear($who, $take, $drop);
      $heard = $now->() if $client && $who == $client;
      $drop->($who) if length $typed > $TYPED;
    }
    if ($in && length $typed) {
      my $put = syswrite($in, $typed);
      if ($put) { substr($typed, 0, $put) = ""; $written += $put }
      elsif (!later()) { $typed = ""; $written = $received; if (!$rows) { close $in; undef $in } }
      $progress->() if $typed eq "" || $written - $told >= 32768;
    }
    if ($in && $eof && $typed eq "") { close $in; undef $in }
    $pass->();
    for my $who (my @all = @clients) {
      if (!flush($who)) { $drop->($who); next }
      $drop->($who) if $who->{leaving} && !length $who->{out};
    }
    $pass->();
    if (vec($r, fileno $listener, 1) && accept(my $file, $listener)) {
      quick($file);
      if (@clients < 32) { push @clients, { file => $file, in => "", out => "" } }
    }

    $time = $now->();
    $again = undef if defined $again && $again <= $time;
    $hangUp->() if defined $end && $end <= $time;
    $hangUp->() if !$client && $leftAt + $linger <= $time;
    $drop->($client) if $client && $heard + $silent <= $time;
    for my $who (my @all = @clients) { $drop->($who) if $who->{leaving} && $who->{leaving} <= $time }
  }
}
`);
