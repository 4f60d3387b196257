/** How what was begun is ended. */

/** Ends what was begun: a subscription, a watch, a consumer. Resolves once no handler of it runs any more. */
export interface Ending {
  close(): Promise<void>;
}
