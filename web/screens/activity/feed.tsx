/** Notifications, newest first. */
import './feed.css';
import type { UserNotification } from '../../../client/index.ts';
import { now } from '../../core/clock.ts';
import { ago, exactTime } from '../../core/format.ts';
import { isOwnPath } from '../../core/own-path.ts';
import { markRead } from '../../live/live.ts';
import { Bones } from '../../parts/note.tsx';
import { Status, type StatusShape } from '../../parts/status.tsx';
import { t } from '../../text/text.ts';

export function Feed({ of: list }: { readonly of: readonly UserNotification[] | undefined }) {
  if (list === undefined) return <Bones tall={56} many={3} />;
  if (list.length === 0) return <p class="inside faint small">{t.containers.quiet}</p>;
  return (
    <ul class="feed">
      {list.map((notification) => (
        <FeedLine key={notification.id} of={notification} />
      ))}
    </ul>
  );
}

function FeedLine({ of: notification }: { readonly of: UserNotification }) {
  const { title, message, link, read, created_at } = notification;
  const at = Date.parse(created_at);
  const name = `cut ${read ? '' : 'new'}`;
  return (
    <li>
      <Status shape={shapeOf(title)} />
      {isOwnPath(link, location.href) ? (
        <a class={name} href={link} onClick={() => void markRead(notification)}>
          {title}
        </a>
      ) : (
        <span class={name}>{title}</span>
      )}
      <time dateTime={created_at} title={exactTime(at)}>
        {ago(at, now.value)}
      </time>
      <p>{message}</p>
    </li>
  );
}

/** Notifications have a title only; those of the platform itself are told by their words. */
function shapeOf(title: string): StatusShape {
  if (/fail|crash|error|gave up/i.test(title)) return 'failed';
  if (/full|expire|soon|high|warn/i.test(title)) return 'warn';
  if (/verified|started|running/i.test(title)) return 'verified';
  return 'stopped';
}
