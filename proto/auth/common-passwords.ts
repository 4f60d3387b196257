/** Passwords that guessers try first (NIST SP 800-63B, section 5.1.1.2: these are to be refused). */

/** Words that the lists of leaked passwords begin with, without what people hang on to them. */
const WORDS = new Set(
  `abc access admin administrator asdf asdfgh asdfghjkl azerty baseball basketball batman changeme charlie computer
   container default dragon dragons drowssap football freedom guest hello iloveyou internet jordan letmein login
   master michael monkey mustang mypassword oracle passw0rd passwd password passwort pokemon princess qazwsx
   qazwsxedc qwer qwert qwerty qwertyui qwertyuiop qwertz root samsung secret secure security server shadow
   starwars sunshine superman superuser temp temporary test tester testing test-password trustno trustnoone
   troupe user username welcome whatever zaqwsx zxcvbn zxcvbnm`
    .trim()
    .split(/\s+/),
);

const RUNS = [
  '01234567890123456789',
  '09876543210987654321',
  'abcdefghijklmnopqrstuvwxyz',
  '1q2w3e4r5t6y7u8i9o0p',
  '1qaz2wsx3edc4rfv',
];

/** Long enough that even little variety is not tried first. */
const LONG = 16;

/**
 * Whether a password is one of those that are tried first: a common word, whatever digits and signs stand around it, a
 * run of the keyboard, or a few signs over and over.
 */
export function isCommonPassword(password: string): boolean {
  const text = password.normalize('NFKC').toLowerCase();
  if ([...text].length >= LONG) return false;
  if (new Set(text).size <= 3) return true;
  if (RUNS.some((run) => run.includes(text))) return true;
  const bare = text.replace(/^[\s!-@[-`{-~]+|[\s!-@[-`{-~]+$/g, '');
  const plain = bare
    .replaceAll('@', 'a')
    .replaceAll('$', 's')
    .replaceAll('0', 'o')
    .replaceAll('1', 'i')
    .replaceAll('3', 'e');
  return [bare, plain].some((word) => word === '' || WORDS.has(word) || isTwice(word));
}

/** `testtest`, `adminadmin`. */
function isTwice(word: string): boolean {
  const half = word.slice(0, word.length / 2);
  return half + half === word && WORDS.has(half);
}
