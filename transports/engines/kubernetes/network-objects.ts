import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import { EngineError, type PrivateNetwork } from '../../../proto/ports/engine.ts';
import { checkedId, type KubeNaming, labels, names, POD_ANNOTATION } from './naming.ts';
import type { NamespaceView, ServiceView } from './views.ts';

/** What is written on a namespace and on services for the sake of private networks. */
const marks = {
  /** Label of a member's namespace: its network. Policies of members look for it. */
  network: 'troupe.dev/network',
  /** Annotation of a member's namespace: `written`. Its last trace when a container leaves. */
  membership: 'troupe.dev/membership',
  /** Label of a service that is a name: the container that it leads to. */
  leadsTo: 'troupe.dev/leads-to',
  /** Label of a service that is a name: the container that finds another by it. */
  askedBy: 'troupe.dev/asked-by',
} as const;

/** Cannot be an alias: a service of that name is in each namespace. */
export const reservedAliases: readonly string[] = [names.service];

/** Where the cluster's names are answered. */
export const clusterNames = {
  to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } }],
  ports: [
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ],
};

/** The policy of members, beside the one that each container has. */
const POLICY = 'private-network';
/** A DNS label that may name a service: what the fields of a container allow. */
const LABEL = /^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** No member has it. A membership that is under way, or not as it should be, is told with it: nobody wants that. */
const NO_PLACE = 0;

const written = z.object({
  name: z.string(),
  alias: z.string().nullable(),
  place: z.number(),
  /** Policy and names are as it says. False from the first write of a change on. */
  isSettled: z.boolean(),
});
type Written = z.output<typeof written>;

/** A container in a private network, as its namespace says. */
interface Member {
  readonly id: string;
  readonly userId: string;
  readonly namespace: string;
  readonly network: string;
  readonly alias: string | null;
  /** The pod that is the container; undefined: it never had more than one. */
  readonly pod: string | undefined;
}

/** A service by which a member finds another: its path, and what it should be. */
export interface AliasService {
  readonly path: string;
  readonly namespace: string;
  readonly name: string;
  readonly leadsTo: string;
  /** Of its pod. */
  readonly selector: Readonly<Record<string, string>>;
  /** Of another namespace; undefined: of the namespace's own pod. */
  readonly externalName: string | undefined;
  readonly body: object;
}

/** Throws EngineError `refused` for what cannot be written. */
export function checkNetwork({ name, alias }: PrivateNetwork): void {
  if (!LABEL.test(name) || (alias !== null && !LABEL.test(alias)))
    throw new EngineError('refused', 'Names in private networks are of a-z, 0-9 and "-".');
  if (alias !== null && reservedAliases.includes(alias))
    throw new EngineError('refused', `"${alias}" cannot be an alias on Kubernetes: choose another.`);
}

/** What is written on the namespace of a container that joins `network`, or leaves: a merge patch. */
export function begun(network: PrivateNetwork | undefined): object {
  const { name = '', alias = null, place = NO_PLACE } = network ?? {};
  return patchOf(network?.name ?? null, { name, alias, place, isSettled: false });
}

/** The same once all else is done. */
export function settled(network: PrivateNetwork | undefined): object {
  if (network === undefined) return patchOf(null, null);
  const { name, alias, place } = network;
  return patchOf(name, { name, alias, place, isSettled: true });
}

function patchOf(label: string | null, membership: Written | null): object {
  const annotation = membership === null ? null : JSON.stringify(membership);
  return { metadata: { labels: { [marks.network]: label }, annotations: { [marks.membership]: annotation } } };
}

/** The private network that a namespace says its container is in; null: none. At no place while that changes. */
export function membershipOf({ metadata }: NamespaceView): PrivateNetwork | null {
  const text = metadata.annotations[marks.membership];
  const label = metadata.labels[marks.network];
  if (text === undefined && label === undefined) return null;
  const found = writtenIn(text);
  const owner = metadata.labels[labels.user] ?? '';
  if (found === undefined) return { owner, name: label ?? '', alias: null, place: NO_PLACE };
  const { name, alias, place, isSettled } = found;
  return { owner, name, alias, place: isSettled && name === label ? place : NO_PLACE };
}

/** What is written on the namespace of a container that is in a private network, as it is there. */
export function membershipTextOf({ metadata }: NamespaceView): string | undefined {
  return metadata.annotations[marks.membership];
}

/** The path of an annotation in a JSON patch. */
export function atAnnotation(name: string): string {
  return `/metadata/annotations/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/**
 * What a JSON patch of the namespace says of another place in the network that its container is in. Nothing when it is
 * in another by now, or that is under way: then somebody else writes it.
 */
export function placeChange(
  { network: present, membershipText }: { readonly network: PrivateNetwork | null; readonly membershipText?: string },
  wanted: PrivateNetwork | undefined,
): readonly object[] {
  if (wanted === undefined || present === null || !isSettled(present)) return [];
  const { name, alias, place } = wanted;
  if (present.name !== name || present.alias !== alias || present.place === place) return [];
  const path = atAnnotation(marks.membership);
  const value = JSON.stringify({ name, alias, place, isSettled: true } satisfies Written);
  return [
    { op: 'test', path, value: membershipText },
    { op: 'replace', path, value },
  ];
}

function writtenIn(text = ''): Written | undefined {
  return written.safeParse(jsonOf(text)).data;
}

/** The same membership, told as one that is not as it should be. */
export function unsettled(network: PrivateNetwork): PrivateNetwork {
  return { ...network, place: NO_PLACE };
}

/** Whether a membership is not under way. */
export function isSettled(network: PrivateNetwork | null): boolean {
  return network === null || network.place !== NO_PLACE;
}

/**
 * Those of these namespaces that are in a private network. An alias that one has still and another has been given
 * already, which happens for a moment, is that of the former.
 */
export function membersIn(naming: KubeNaming, namespaces: readonly NamespaceView[]): readonly Member[] {
  const members = namespaces.flatMap(({ metadata }) => {
    const id = naming.idOf(metadata.labels);
    const network = metadata.labels[marks.network];
    if (id === undefined || network === undefined || metadata.deletionTimestamp != null) return [];
    const found = writtenIn(metadata.annotations[marks.membership]);
    const alias = found?.name === network ? found.alias : null;
    const userId = metadata.labels[labels.user] ?? '';
    const pod = metadata.annotations[POD_ANNOTATION];
    return [{ id, userId, namespace: metadata.name, network, alias, pod, isSettled: found?.isSettled === true }];
  });
  const holders = new Map<string, string>();
  for (const { id, userId, network, alias } of members.toSorted((a, b) => Number(b.isSettled) - Number(a.isSettled))) {
    const name = `${userId}/${network}/${alias}`;
    if (!holders.has(name)) holders.set(name, id);
  }
  return members.map(({ isSettled: _, ...member }) => {
    const { id, userId, network, alias } = member;
    return holders.get(`${userId}/${network}/${alias}`) === id ? member : { ...member, alias: null };
  });
}

/** The names that a member finds others by: its own leads to its pod, and each other's to where that one's leads. */
export function aliasServices(
  naming: KubeNaming,
  asking: Member,
  members: readonly Member[],
  clusterDomain: string,
): readonly AliasService[] {
  return members.flatMap((member) => {
    const { id, alias, pod } = member;
    if (alias === null || member.userId !== asking.userId || member.network !== asking.network) return [];
    const { namespace } = asking;
    const externalName = id === asking.id ? undefined : `${alias}.${member.namespace}.svc.${clusterDomain}`;
    const path = `/api/v1/namespaces/${namespace}/services/${alias}`;
    const { [labels.container]: _, ...own } = naming.labelsOf(asking.userId, id);
    const metadata = {
      name: alias,
      namespace,
      labels: { ...own, [marks.leadsTo]: id, [marks.askedBy]: asking.id },
    };
    // A service has a port, and one without an address of its own is found for all of them. Found is a pod that runs:
    // one that prepares, ends or has ended is not.
    const ports = [{ name: 'ssh', protocol: 'TCP', port: 22, targetPort: 22 }];
    const selector = { [labels.container]: id, ...(pod === undefined ? {} : { [labels.pod]: pod }) };
    const spec =
      externalName === undefined
        ? { type: 'ClusterIP', clusterIP: 'None', selector, ports }
        : { type: 'ExternalName', externalName };
    return [
      {
        path,
        namespace,
        name: alias,
        leadsTo: id,
        selector,
        externalName,
        body: { apiVersion: 'v1', kind: 'Service', metadata, spec },
      },
    ];
  });
}

/** The container that finds another by a service; undefined: the service is no name. */
export function askerOf(found: Readonly<Record<string, string>> | undefined): string | undefined {
  return found?.[marks.askedBy];
}

/** Whether a namespace is that of a member of a private network. */
export function isMember({ metadata }: NamespaceView): boolean {
  return metadata.labels[marks.network] !== undefined;
}

/** Whether a service is as it should be. */
export function isAs({ metadata, spec }: ServiceView, wanted: AliasService): boolean {
  if (metadata.name !== wanted.name || metadata.namespace !== wanted.namespace) return false;
  if (!isOfKind({ spec }, wanted) || metadata.labels[marks.leadsTo] !== wanted.leadsTo) return false;
  return wanted.externalName === undefined
    ? isDeepStrictEqual(spec.selector, wanted.selector)
    : spec.externalName === wanted.externalName;
}

/** Whether a service can become what it should be: the other kind has to be made anew. */
export function isOfKind({ spec }: Pick<ServiceView, 'spec'>, { externalName }: AliasService): boolean {
  return (spec.type === 'ExternalName') === (externalName !== undefined);
}

/** Selects namespaces of containers of a user, and the services that are names. */
export function selectorsOf(naming: KubeNaming, userId: string): { readonly members: string; readonly names: string } {
  const user = `${labels.user}=${checkedId(userId)}`;
  return {
    members: `${naming.selector()},${user},${marks.network}`,
    names: `${labels.installation}=${naming.installation},${user},${marks.leadsTo}`,
  };
}

/**
 * The policy of a member: all ports of the other members are open to it, and its own to them, whatever else it may
 * reach; and the names of the cluster, by which it finds them. It adds to the policy that the container has. Of one
 * that is in no network it adds nothing.
 */
export function memberPolicy(
  naming: KubeNaming,
  { namespace, id, userId }: Pick<Member, 'namespace' | 'id' | 'userId'>,
  network: PrivateNetwork | undefined,
): { readonly path: string; readonly body: object } {
  const { [labels.container]: _, ...own } = naming.labelsOf(userId, id);
  const { [labels.managedBy]: __, ...whose } = own;
  const members = { namespaceSelector: { matchLabels: { ...whose, [marks.network]: network?.name ?? '' } } };
  return {
    path: `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies/${POLICY}`,
    body: {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: POLICY, namespace, labels: naming.labelsOf(userId, id) },
      spec: {
        podSelector: { matchLabels: { [labels.container]: id } },
        policyTypes: ['Ingress', 'Egress'],
        ingress: network === undefined ? [] : [{ from: [members] }],
        egress: network === undefined ? [] : [{ to: [members] }, clusterNames],
      },
    },
  };
}
