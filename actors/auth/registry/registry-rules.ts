/**
 * Who may do what with which repository of the image registry, decided without looking anywhere. What may not be had is
 * left out; nothing here refuses.
 *
 *   | identity      | pull public | own repositories     | `library/*`                   |
 *   |---------------|-------------|----------------------|-------------------------------|
 *   | anybody       | yes         |                      | pull                          |
 *   | user          | yes         | pull, push, delete   | pull; the admin push, delete  |
 *   | API token     | yes         | as its scopes say    | pull                          |
 *   | pull pass     | of the one repository it names: pull                              |
 */
import { REPOSITORY_ACTIONS, type RepositoryAccess, type RepositoryAction } from '../../../proto/auth/registry.ts';
import type { RegistryHolder } from '../../../proto/auth/tokens.ts';
import { isRepository, LIBRARY } from '../../../proto/repositories.ts';
import { grants, type Scopes } from '../../../proto/scopes.ts';

/** Most repositories that one token speaks of; the rest are left out. */
export const MAX_REPOSITORIES = 100;

/** What is asked for: repository -> actions. */
type AskedAccess = ReadonlyMap<string, ReadonlySet<RepositoryAction>>;

/** With what a token ends that is made for them; absent: with its own time. */
interface WithHolder {
  readonly holder?: RegistryHolder;
}

/** Who asks. `token`: an API token of the user or of their service account. `pull`: a node that pulls for the user. */
export type RegistryIdentity =
  | { readonly kind: 'anonymous' }
  | (WithHolder & { readonly kind: 'user'; readonly username: string; readonly isAdmin: boolean })
  | (WithHolder & {
      readonly kind: 'token';
      readonly username: string;
      readonly userId: string;
      readonly scopes: Scopes;
    })
  | { readonly kind: 'pull'; readonly username: string; readonly repository: string };

/**
 * Reads OCI scopes, separated by spaces: `repository:<name>:<action>,<action>`, where `*` stands for all actions.
 * Scopes of other types or classes, of names that no repository can have, and unknown actions are passed over; what
 * comes twice counts once.
 */
export function askedFor(scope: string): AskedAccess {
  const asked = new Map<string, Set<RepositoryAction>>();
  for (const one of scope.split(' ')) {
    const [type, name = '', list = '', ...more] = one.split(':');
    if (type !== 'repository' || more.length > 0 || !isRepository(name)) continue;
    const actions = list.split(',').flatMap(actionsOf);
    const known = asked.get(name);
    if (known !== undefined) for (const action of actions) known.add(action);
    else if (actions.length > 0 && asked.size < MAX_REPOSITORIES) asked.set(name, new Set(actions));
  }
  return asked;
}

function actionsOf(word: string): readonly RepositoryAction[] {
  return word === '*' ? REPOSITORY_ACTIONS : REPOSITORY_ACTIONS.filter((action) => action === word);
}

/** What is granted of what is asked. `isPublic` knows the repositories that were made public. */
export function accessFor(
  who: RegistryIdentity,
  asked: AskedAccess,
  isPublic: (name: string) => boolean,
): RepositoryAccess[] {
  const access: RepositoryAccess[] = [];
  for (const [name, wanted] of asked) {
    const actions = REPOSITORY_ACTIONS.filter(
      (action) => wanted.has(action) && mayDo(who, name, action, () => isPublic(name)),
    );
    if (actions.length > 0) access.push({ type: 'repository', name, actions });
  }
  return access;
}

function mayDo(who: RegistryIdentity, name: string, action: RepositoryAction, isPublic: () => boolean): boolean {
  if (who.kind === 'pull' && (action !== 'pull' || name !== who.repository)) return false;
  const owner = ownerOf(name);
  if (owner === LIBRARY) return action === 'pull' || (who.kind === 'user' && who.isAdmin);
  if (action === 'pull' && owner !== undefined && isPublic()) return true;
  if (who.kind === 'anonymous' || who.username !== owner) return false;
  return who.kind !== 'token' || scopeKeys(who, name).some((key) => grants(who.scopes, key, action));
}

/** Whether a token with these scopes lets do it, to the repository of its user. */
export function stillGrants(
  grant: { readonly username: string; readonly userId: string; readonly scopes: Scopes },
  name: string,
  action: RepositoryAction,
): boolean {
  return mayDo({ kind: 'token', ...grant }, name, action, () => false);
}

/** Whose repository it is: the first part of its name. Undefined for a name of one part: it is not served. */
export function ownerOf(name: string): string | undefined {
  const slash = name.indexOf('/');
  return slash < 0 ? undefined : name.slice(0, slash);
}

/** Whether it is one of everybody's, which cannot be made private. */
export function isLibrary(name: string): boolean {
  return ownerOf(name) === LIBRARY;
}

/**
 * The scope keys that name a repository of the user's own. A key may leave out `<username>/`, so that what follows
 * `storage.<uid>.registry.` names one repository: the full name if it begins with `<username>/`, else the rest of one.
 */
function scopeKeys({ username, userId }: { username: string; userId: string }, name: string): string[] {
  const own = `${username}/`;
  const rest = name.slice(own.length);
  return [name, ...(rest.startsWith(own) ? [] : [rest])].map((repo) => `storage.${userId}.registry.${repo}`);
}
