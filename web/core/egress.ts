/** What a container may reach, as it is chosen and typed. */
import type { CallInput } from '../../client/index.ts';

export type EgressChoice = 'any' | 'none' | 'list';

/** As a choice that a form gives back. */
export function egressChoice(text: string): EgressChoice {
  return text === 'none' || text === 'list' ? text : 'any';
}

/** As it is sent. */
export function egressOf(choice: EgressChoice, networks: string): CallInput<'createContainer'>['body']['egress'] {
  return choice === 'list' ? networks.split(/[\s,]+/).filter((network) => network !== '') : choice;
}

/** As `--egress` takes it. */
export function egressWord(choice: EgressChoice, networks: string): string {
  const egress = egressOf(choice, networks);
  return typeof egress === 'object' ? egress.join(',') || 'NETWORKS' : String(egress);
}
