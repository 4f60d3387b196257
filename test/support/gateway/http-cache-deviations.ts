/** Where the gateway's cache does other than the public suite of tests for HTTP caches looks for, and why: docs/engineering/trials.md says more. */

/** The suite takes such a response for stale, the RFC says otherwise: its reuse is meant. */
export const INVALID_AGE =
  'RFC 9111, section 5.1: of several members of Age the first counts, and an invalid one is ignored';

/** Tests by `suite/id`, and the reason why each turns out so. */
export const DEVIATIONS: readonly (readonly [tests: RegExp, reason: string])[] = [
  [/^cc-freshness\/freshness-none$/, 'interface: 30 s, whether a response speaks of caches or not'],
  [/^(status|heuristic)\//, 'interface: 200 alone is kept'],
  [/^stale\/stale-(close|503|sie-(close|503)|warning-.*)$/, 'nothing stale is given, with or without a warning'],
  [
    /^stale\/stale-close-/,
    'the origin hangs up: the gateway answers 502, which the suite takes for reuse, as with all caches',
  ],
  [/^cc-request\/ccreq-max-stale/, 'nothing stale is given'],
  [/^cc-request\/ccreq-oic$/, 'only-if-cached is the word of a browser to its own cache'],
  [
    /^(update304|conditional-inm)\//,
    'no revalidation: what is stale is asked for anew; beside a condition fetch asks for no-cache',
  ],
  [/^conditional-lm\//, 'conditions are left to the origin'],
  [/^(cc-response\/cc-resp-|cc-request\/ccreq-no-cache-)/, 'no revalidation: what is stale is asked for anew'],
  [/^cc-response\/headers-omit-headers-listed/, 'no-cache and private with names keep all of the response out'],
  [/^partial\//, 'ranges are left to the origin'],
  [/^updateHEAD\//, 'HEAD is left to the origin'],
  [/^method\/method-POST$/, 'interface: GET alone'],
  [/^invalidation\/.*-failed$/, 'interface: a mutating request evicts at once'],
  [/^auth\//, 'interface: no request with Authorization'],
  [/^other\/query-args-same$/, 'interface: no request with a query'],
  [/^other\/other-set-cookie$/, 'interface: no Set-Cookie'],
  [/^headers\/headers-store-Set-Cookie2?$/, 'interface: no Set-Cookie'],
  [/^headers\/headers-store-Content-Range$/, 'a 200 with Content-Range is not whole'],
  [/^headers\/headers-store-Transfer-Encoding$/, 'the suite sends a coding that is none: 502'],
  [/^other\/other-cookie$/, 'a request with a cookie gets only what is said to be for everybody'],
  [/^vary\//, 'a request with a field that is not known takes no part; Accept-Language is compared as it is written'],
  [/^pragma\//, 'Pragma: no-cache keeps out, in requests and responses'],
  [/^surrogate-control\//, 'the strictest of Cache-Control, Surrogate-Control and Expires counts; it is not passed on'],
  [
    /^age-parse\/age-parse-(nonnumeric|negative|float|prefix-twoline|dup-0|dup-0-twoline|dup-old|parameter|numeric-parameter)$/,
    INVALID_AGE,
  ],
  [/^(cc|expires|age)-parse\//, 'in doubt a response is older, and what is no number or date is stale'],
];

/** Why a test that does not pass does not; undefined when nobody knows. */
export function reasonOf(test: string): string | undefined {
  return DEVIATIONS.find(([tests]) => tests.test(test))?.[1];
}
