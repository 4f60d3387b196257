/** The workbench of a container: what it uses, its terminals, and its log beside them. */
import './workbench.css';
import { type Container, imageName, readableHost } from '../../../client/index.ts';
import { gigabytes, megabytes } from '../../core/format.ts';
import type { ScreenProps } from '../../core/router.ts';
import { place } from '../../core/router.ts';
import { CopyButton } from '../../parts/copy.tsx';
import { Note } from '../../parts/note.tsx';
import { Facts } from '../../parts/panel.tsx';
import { t } from '../../text/text.ts';
import { ContainerFrame } from './frame.tsx';
import { LogPane } from './log/pane.tsx';
import { TerminalPane } from './terminal/pane.tsx';
import { UsagePlots } from './usage.tsx';

const SHOWN = ['terminal', 'log', 'usage'] as const;
const NAMES = { terminal: t.container.terminal, log: t.container.logs, usage: t.container.usage } as const;

export function Workbench({ params: { id = '' } }: ScreenProps) {
  const asked = place.value.query.get('show');
  const show = SHOWN.find((one) => one === asked) ?? 'terminal';
  return (
    <ContainerFrame id={id}>
      {(container) => (
        <div class="stack bench" data-show={show}>
          <Reason container={container} />
          <About container={container} />
          {container.status === 'running' && <UsagePlots container={container} />}
          <nav class="seg only-s" aria-label={t.container.show}>
            {SHOWN.map((one) => (
              <a key={one} href={`/containers/${id}?show=${one}`} aria-current={one === show ? 'true' : undefined}>
                {NAMES[one]}
              </a>
            ))}
          </nav>
          <div class="panes">
            <TerminalPane container={container} />
            <LogPane container={container} />
          </div>
        </div>
      )}
    </ContainerFrame>
  );
}

function Reason({ container: { status, status_reason, health, health_reason } }: { readonly container: Container }) {
  if (status === 'running' && health_reason !== undefined)
    return <Note tone={health === 'unhealthy' ? 'warn' : 'busy'}>{health_reason}</Note>;
  if (status_reason === undefined || status === 'running') return null;
  return <Note tone={status === 'failed' ? 'bad' : 'busy'}>{status_reason}</Note>;
}

function About({ container }: { readonly container: Container }) {
  const { ports = [], ssh, image = '', pull_policy, instance_type, memory_mb, storage_gb } = container;
  const size = t.container.sizeOf(instance_type, t.sizes[instance_type], megabytes(memory_mb), gigabytes(storage_gb));
  const isOpen = ports.length > 0;
  const host = readableHost(container);
  return (
    <Facts
      of={[
        [
          t.container.address,
          <>
            <span class={`cut ${isOpen ? '' : 'faint'}`} title={isOpen ? host : undefined}>
              {isOpen ? host : t.container.noAddress}
            </span>
            {isOpen && <CopyButton text={host} what={t.container.theAddress} />}
          </>,
        ],
        [
          t.container.ssh,
          ssh === undefined ? (
            <span class="faint">{t.container.sshOff}</span>
          ) : (
            <>
              <code class="cut" title={ssh.command}>
                {ssh.command}
              </code>
              <CopyButton text={ssh.command} what={t.container.theCommand} />
            </>
          ),
        ],
        [
          t.container.image,
          <>
            <code class="cut" title={imageName(image)}>
              {imageName(image)}
            </code>
            <span class="tag">{t.container.pulled[pull_policy]}</span>
          </>,
        ],
        [t.container.size, <span class="cut">{size}</span>],
      ]}
    />
  );
}
