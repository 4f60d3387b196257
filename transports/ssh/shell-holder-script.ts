/**
 * What runs inside the container to keep a shell while nobody is connected: a program for the perl that every Debian
 * has (perl-base), so that nothing has to be installed. It is sent with the command that starts it.
 *
 * Run once for each attachment it is a bridge between its standard streams and the socket of the shell's holder, which
 * it starts when there is none. The holder owns the terminal and the shell, keeps what was printed last, and knows one
 * client at a time. What they say to each other is in shell-holder-frames.ts.
 */

import { HOLDER_BEGIN, HOLDER_BOOT, HOLDER_SUBS } from '../../lib/holder-script.ts';

/** What a bridge says when it is connected; frames follow. Whatever came before was printed by the login. */
export const HELLO = Buffer.from('\n\x01troupe holder 1\x02\n');

/** Arguments of the program: see its first line. */
export interface HolderArguments {
  /** Folder of the sockets: made if it is missing, and must be nobody else's. */
  readonly folder: string;
  /** Of the socket: letters and digits. */
  readonly name: string;
  readonly cols: number;
  readonly rows: number;
  readonly term: string;
}

/** The command that reads the program from its standard input and runs it: one line that any shell understands. */
export function holderCommand({ folder, name, cols, rows, term }: HolderArguments): string {
  return `exec perl -e '${HOLDER_BOOT}' ${holderProgram.length} ${folder} ${name} ${cols} ${rows} ${term}`;
}

const program = String.raw`${HOLDER_BEGIN}
my ($folder, $name, $cols, $rows, $term) = @ARGV;
# Bytes that may be under way, printed unseen, and shown again; and seconds without a word.
my ($WINDOW, $AWAY, $REPLAY, $SILENT) = (262144, 32768, 65536, 90);
my $path = "$folder/$name";

my $lock = enter($folder);
my $holder = dial($path);
if (!$holder) {
  # What containers that were killed left behind.
  opendir(my $all, $folder) or die;
  my $others = 0;
  for (grep { /^\w+$/ && $_ ne "lock" } readdir $all) { dial("$folder/$_") ? $others++ : unlink "$folder/$_" }
  die "too many shells\n" if $others >= 16;
  start($lock);
  $holder = dial($path) or die "no holder: $!\n";
}
close $lock;
alarm 0;
bridge($holder, "\n\x01troupe holder 1\x02\n");
exit 0;
${HOLDER_SUBS}
sub hold {
  my $ready = shift;
  my $silent = $SILENT;
  chdir "/";
  my $now = ticking();

  # The terminal, and the shell as a login would start it.
  my ($pty, $tty) = terminal($cols, $rows);
  sysopen(my $line, $tty, O_RDWR | O_NOCTTY) or die;
  my ($listener, $died) = listening($path);
  quick($pty);
  my $shell = fork;
  die unless defined $shell;
  if (!$shell) {
    POSIX::setsid();
    ioctl($line, 0x540E, 0) or POSIX::_exit(1);
    open STDIN, "<&", $line; open STDOUT, ">&", $line; open STDERR, ">&", $line;
    @SIG{qw(HUP PIPE CHLD ALRM)} = ("DEFAULT") x 4;
    umask 022;
    my ($home, $program) = (getpwuid $>)[7, 8];
    $program ||= "/bin/sh";
    chdir $home;
    delete @ENV{qw(SSH_USER_AUTH SSH_ORIGINAL_COMMAND SHLVL OLDPWD PWD _)};
    @ENV{qw(SSH_TTY TERM)} = ($tty, $term);
    $program =~ m{([^/]*)$};
    { no warnings; exec { $program } "-$1" }
    POSIX::_exit(127);
  }
  close $line;
  ready($ready, "troupe-terminal");

  # What was printed: $kept ends at $total, counted from the beginning; up to $seen it is with the client, and up to
  # $shown a client was told of it.
  my ($kept, $total, $seen, $shown) = ("", 0, 0, 0);
  my ($typed, $taken) = ("", 0);
  my (@clients, $client);
  # Whether somebody looks; since when nobody does, where the output was then, how long the shell waits, and when it
  # ends in any case.
  my ($here, $left, $leftAt, $linger, $end) = (0, 0, $now->(), 30, undef);
  my ($heard, $again, $over) = (0, undef, undef);

  my $finish = sub { unlink $path; POSIX::_exit(0) };
  my $hangUp = sub { unlink $path; close $pty; kill "HUP", -$shell; POSIX::_exit(0) };
  $SIG{TERM} = $SIG{INT} = $hangUp;
  my $away = sub { ($here, $left, $leftAt) = (0, $total, $now->()) if $here };
  my $drop = sub {
    my $gone = shift;
    @clients = grep { $_ != $gone } @clients;
    close $gone->{file};
    if ($client && $client == $gone) { $away->(); undef $client }
  };
  my $room = sub {
    my $unseen = $total - $seen;
    return $WINDOW - $unseen if $here;
    my ($all, $since) = ($WINDOW + $AWAY - $unseen, $AWAY - ($total - $left));
    return $all < $since ? $all : $since;
  };
  # Where what is shown again begins: all that may not have been seen is in it, with some that was, so that the ends
  # meet.
  my $begin = sub {
    my $from = $seen - 4096;
    $from = $total - $REPLAY if $from > $total - $REPLAY;
    my $oldest = $total - length $kept;
    return $from > $oldest ? $from : $oldest;
  };
  my $print = sub {
    my $data = shift;
    return if $data eq "";
    $kept .= $data;
    $total += length $data;
    if ($here) { tells($client, "O", $data); $shown = $total }
    my $from = $begin->();
    substr($kept, 0, $from - ($total - length $kept)) = "" if length($kept) > 2 * ($total - $from);
  };
  my $read = sub {
    my $most = shift;
    my $data = "";
    while (length $data < $most) {
      my $got = sysread($pty, $data, $most - length $data, length $data);
      next if $got;
      # Nobody has the terminal open; the shell may do so again.
      $again = $now->() + 0.2 if defined $got || !later();
      last;
    }
    $print->($data);
    return length $data;
  };
  my $look = sub {
    my ($who, $wait, $life) = @_;
    if ($client && $client != $who) {
      tells($client, "T", "");
      $client->{leaving} = $now->() + 5;
    }
    ($client, $here, $linger) = ($who, 1, $wait / 1000);
    $end = $life == 0xffffffff ? undef : $now->() + $life / 1000;
    my $from = $begin->();
    my $data = substr($kept, $from - ($total - length $kept));
    $data =~ s/^[\x80-\xbf]{1,3}// if $from > 0;
    $seen = $total - length $data;
    tells($who, "R", pack "N", $shown > $seen ? $shown - $seen : 0);
    $shown = $total;
    tells($who, "O", substr($data, 0, 32768, "")) while length $data;
    tells($who, "X", $over) if defined $over;
  };
  my $take = sub {
    my ($who, $type, $data) = @_;
    $heard = $now->() if $type eq "L";
    return $look->($who, unpack "NN", $data) if $type eq "L" && !$who->{leaving};
    return unless $client && $who == $client;
    if ($type eq "I") { $typed .= $data }
    elsif ($type eq "K") { $seen += unpack "N", $data; $seen = $total if $seen > $total }
    elsif ($type eq "S") { resize($pty, unpack "nn", $data) }
    elsif ($type eq "W") { $away->() }
    elsif ($type eq "H") { $hangUp->() }
  };

  while (1) {
    my $at = $now->();
    my @ends = ($end, $again, $here ? undef : $leftAt + $linger, $client ? $heard + $silent : undef,
      map { $_->{leaving} } @clients);
    my ($r, $w) = ("", "");
    vec($r, fileno $_, 1) = 1 for $listener, $died;
    vec($r, fileno $pty, 1) = 1 if !defined $over && !defined $again && $room->() > 0;
    vec($w, fileno $pty, 1) = 1 if length $typed;
    ($r, $w) = await($r, $w, left($at, @ends), @clients);

    if (vec($r, fileno $died, 1)) {
      sysread $died, my $ignored, 100;
      if (waitpid($shell, POSIX::WNOHANG()) > 0) {
        my $status = $?;
        $finish->() unless $here;
        # What it printed last; not what others print who have the terminal open still.
        my $rest = 262144;
        while ($rest > 0) { my $got = $read->(32768) or last; $rest -= $got }
        $over = pack "CC", $status >> 8, $status & 127;
        tells($client, "X", $over);
      }
    }
    if (!defined $over && vec($r, fileno $pty, 1)) {
      my $free = $room->();
      $read->($free > 32768 ? 32768 : $free) if $free > 0;
    }
    for my $who (my @all = @clients) {
      next unless vec($r, fileno $who->{file}, 1) && hear($who, $take, $drop);
      $heard = $now->() if $client && $who == $client;
      $drop->($who) if length $typed > 1048576;
    }
    if (length $typed) {
      my $put = syswrite($pty, $typed);
      if ($put) {
        substr($typed, 0, $put) = "";
        $taken += $put;
        if ($taken >= 16384 && $here) { tells($client, "C", pack "N", $taken); $taken = 0 }
      } elsif (!later()) { $typed = "" }
    }
    for my $who (my @all = @clients) {
      if (!flush($who)) { $drop->($who); next }
      next if length $who->{out};
      $finish->() if defined $over && $here && $who == $client;
      $drop->($who) if $who->{leaving};
    }
    if (vec($r, fileno $listener, 1) && accept(my $file, $listener)) {
      quick($file);
      if (@clients < 16) { push @clients, { file => $file, in => "", out => "" } }
    }

    $at = $now->();
    $again = undef if defined $again && $again <= $at;
    $hangUp->() if defined $end && $end <= $at;
    $hangUp->() if !$here && $leftAt + $linger <= $at;
    $finish->() if defined $over && !$here;
    $drop->($client) if $client && $heard + $silent <= $at;
    for my $who (my @all = @clients) { $drop->($who) if $who->{leaving} && $who->{leaving} <= $at }
  }
}
`;

/** The program, as it is written to the command's standard input. */
export const holderProgram: Buffer = Buffer.from(program);
